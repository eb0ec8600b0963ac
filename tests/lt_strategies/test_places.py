"""What is said of where a rank failed."""

import pytest

from lt_strategies.job import place_of
from lt_strategies.watch.page import IDLE, RUNNING, STARTING, STEPPING, Line


def training_step():
    raise ValueError


def validation_step():
    training_step()


@pytest.mark.parametrize(
    ("state", "phase", "fails", "place"),
    [
        (STEPPING, "train", training_step, "in train batch 17 of this run"),
        (STEPPING, "train", validation_step, "in its first validate batch"),
        (STEPPING, "validate", validation_step, "in validate batch 17 of this run"),
        (STEPPING, "validate", training_step, "in its first train batch after validate"),
        (RUNNING, "", validation_step, "in its first validate batch"),
        (RUNNING, "", training_step, "before its first batch"),
        (STEPPING, "", training_step, "in its first batch or before it"),
    ],
)
def test_a_rank_that_fails_in_validation_is_not_said_to_train(state, phase, fails, place):
    with pytest.raises(ValueError) as failed:
        fails()
    assert place_of(Line(1, 0.0, state, 16, phase), failed.value) == place


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (Line(state=STARTING), "while it started"),
        (Line(state=IDLE, batches=3, phase="train"), "between two runs"),
        (Line(state=RUNNING, first=True), "before its first batch"),
        (Line(state=STEPPING, first=True), "in its first batch or before it"),
        (Line(state=STEPPING, batches=2, phase="validate", first=True), "in validate batch 3 of this run or after it"),
        (Line(state=STEPPING, batches=1, phase="train"), "in train batch 2 of this run"),
    ],
)
def test_a_rank_that_dies_is_said_to_be_no_earlier_than_it_was(line, place):
    assert line.place == place
