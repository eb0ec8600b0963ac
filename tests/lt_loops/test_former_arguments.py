"""Arguments that moved out of the Trainer's signature: taken where they were, with one note on today's spelling."""

import inspect
import warnings

import pytest

from lt_core.errors import ConfigError, LtDeprecationWarning
from lt_loops import Trainer, former_names
from lt_loops.arguments.table import ARGUMENTS, Settings

FORMER = [
    ({"validate_at_start": True}, {"num_sanity_val_steps": "logged"}, "num_sanity_val_steps='logged'"),
    ({"max_duration": "4 epochs"}, {"max_time": "4 epochs"}, "max_time='4 epochs'"),
    ({"max_duration": "9 steps"}, {"max_time": "9 steps"}, "max_time='9 steps'"),
    ({"max_duration": "9 samples"}, {"max_time": "9 samples"}, "max_time='9 samples'"),
    ({"max_duration": "2 h"}, {"max_time": "2 h"}, "max_time='2 h'"),
    ({"eval_precision": "bf16-mixed"}, {"precision": {"eval": "bf16-mixed"}}, "'eval': 'bf16-mixed'"),
    (
        {"precision": "bf16-mixed", "eval_precision": "32-true"},
        {"precision": {"train": "bf16-mixed", "eval": "32-true"}},
        "precision={'train': ..., 'eval': '32-true'}",
    ),
]
"""Arguments as they were, as they are, and what the note says."""

LEFT = [
    ({"silence": ["LT321"]}, "lt.errors.silence(['LT321'])", ("LT321",)),
    ({"cuda_graphs": 8}, "step=GraphSteps(8) of lt_graphs", True),
    ({"steps_per_execution": 8}, "step=GraphSteps(8) of lt_graphs", 8),
    ({"on_signal": "return"}, "trainer.on_signal = 'return'", "return"),
    ({"prepare_data_per_node": False}, "prepare_data_per_node = False in the datamodule", False),
    ({"enable_autolog_hparams": False}, "save_hyperparameters(logger=False)", False),
]
"""Arguments whose place is no argument any more, what the note says, and the setting."""


def noted(given):
    """Return the settings, and what the one note says."""
    with pytest.warns(LtDeprecationWarning) as notes:
        settings = Settings.checked(given)
    (note,) = notes
    return settings, str(note.message)


def as_they_count(settings):
    names = (name for name in ARGUMENTS if name not in ("default_root_dir", "max_duration"))
    return {name: getattr(settings, name) for name in names}, settings.amount


@pytest.mark.parametrize(("before", "today", "says"), FORMER)
def test_a_former_argument_counts_as_todays_and_is_noted_once(before, today, says):
    settings, note = noted(before)
    assert says in note
    expected = as_they_count(Settings.checked(today))
    found = as_they_count(settings)
    if "validate_at_start" in before:
        found[0]["num_sanity_val_steps"] = 0  # in place of the sanity check, whose number is not read
    assert found == expected


@pytest.mark.parametrize(("before", "says", "value"), LEFT)
def test_an_argument_with_another_place_today_works_and_is_noted_once(before, says, value):
    settings, note = noted(before)
    assert says in note
    assert [getattr(settings, name) for name in before] == [value]


@pytest.mark.parametrize("name", sorted({*Trainer.former_arguments} - {*former_names.ARGUMENTS}))
def test_it_is_not_in_the_signature_and_none_says_nothing(name):
    assert name not in inspect.signature(Trainer).parameters
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Settings.checked({name: None})


def test_the_signature_has_at_most_42_arguments():
    assert len([p for p in inspect.signature(Trainer).parameters.values() if p.kind is p.KEYWORD_ONLY]) <= 42


def test_a_variable_of_the_environment_is_no_former_spelling(monkeypatch):
    monkeypatch.setenv("PL_TRAINER_ON_SIGNAL", "return")
    assert Trainer(logger=False).on_signal == "return"


def test_a_signal_ends_a_run_as_the_attribute_says_which_is_checked():
    made = Trainer(logger=False)
    assert made.on_signal == "exit"
    made.on_signal = "Return"
    assert made.on_signal == "return"
    with pytest.raises(ConfigError, match=r"trainer.on_signal='stop'.*'exit' or 'return'|on_signal='stop'"):
        made.on_signal = "stop"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"precision": {"eval": "bf16-mixed"}, "eval_precision": "32-true"}, "Leave eval_precision out"),
        ({"precision": {"train": "bf16-mixed"}, "eval_precision": "32-true"}, ""),
        ({"precision": "bf16-mixed", "eval_precision": "32-true"}, ""),
        ({"cuda_graphs": 4, "steps_per_execution": 8}, "Leave steps_per_execution out"),
        ({"cuda_graphs": 0, "steps_per_execution": 8}, "Leave steps_per_execution out"),
        ({"cuda_graphs": True, "steps_per_execution": 8}, ""),
        ({"cuda_graphs": None, "steps_per_execution": 8}, ""),
    ],
)
@pytest.mark.filterwarnings("ignore::lt_core.errors.LtDeprecationWarning")
def test_a_former_argument_beside_todays_for_the_same_is_an_error(given, says):
    if not says:
        Settings.checked(given)
        return
    with pytest.raises(ConfigError, match=says):
        Settings.checked(given)
