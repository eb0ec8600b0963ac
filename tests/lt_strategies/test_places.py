"""What is said of where a rank failed."""

import pytest

from lt_strategies.job import place_of
from lt_strategies.watch.page import RUNNING, STEPPING, Line


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
    ],
)
def test_a_rank_that_fails_in_validation_is_not_said_to_train(state, phase, fails, place):
    with pytest.raises(ValueError) as failed:
        fails()
    assert place_of(Line(1, 0.0, state, 16, phase), failed.value) == place
