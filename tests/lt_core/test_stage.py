"""The words for what a run does."""

import pytest

from lt_core.data import DataSource
from lt_core.module import LightningModule
from lt_core.states import Stage


@pytest.mark.parametrize("word", ["validate", "val", "validation"])
def test_a_stage_is_found_by_each_of_its_words(word):
    assert Stage(word) is Stage.VALIDATE
    assert Stage("validate") == "validate"


def test_a_word_of_no_stage_is_an_error():
    with pytest.raises(ValueError, match="evaluate"):
        Stage("evaluate")


@pytest.mark.parametrize("stage", Stage)
def test_the_names_made_of_a_stage_are_those_of_hooks(stage):
    assert hasattr(DataSource, stage.loader)
    assert hasattr(LightningModule, stage.step)
    assert hasattr(LightningModule, f"on_{stage.hook}_batch_start")
