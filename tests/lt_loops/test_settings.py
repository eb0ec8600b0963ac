"""The Trainer's arguments: what each form becomes, and what follows from what."""

import warnings
from datetime import timedelta
from pathlib import Path

import pytest
import torch

from lt_core import Callback, ConfigError, ConfigTypeError, Logger, LtDeprecationWarning, LtWarning, Precision
from lt_loops.arguments.precision_names import canonical_precision
from lt_loops.arguments.table import ARGUMENTS, Settings

LIMITS = [f"limit_{stage}_batches" for stage in ("train", "val", "test", "predict")]


def test_nothing_given_is_the_defaults():
    assert Settings.checked({}) == Settings()


def test_none_stands_for_every_default_but_one():
    settings = Settings.checked(dict.fromkeys(ARGUMENTS.keys() - {"check_val_every_n_epoch"}))
    assert settings == Settings()
    across_epochs = Settings.checked({"check_val_every_n_epoch": None, "val_check_interval": 100})
    assert across_epochs.check_val_every_n_epoch is None


@pytest.mark.parametrize(
    "given, name, becomes",
    [
        ({"callbacks": Callback()}, "callbacks", list),
        ({"logger": Logger()}, "logger", list),
        ({"plugins": Precision()}, "plugins", list),
        ({"compile": True}, "compile", dict),
        ({"max_time": "00:00:10:00"}, "max_time", timedelta),
        ({"max_time": "2 h"}, "max_time", timedelta),
        ({"max_time": "1e3 steps"}, "max_steps", int),
        ({"val_check_interval": {"minutes": 5}}, "val_check_interval", timedelta),
        ({"default_root_dir": Path("here")}, "default_root_dir", str),
    ],
)
def test_an_argument_of_several_forms_has_one_in_the_settings(given, name, becomes):
    assert type(getattr(Settings.checked(given), name)) is becomes


def test_a_count_stays_a_count_and_a_fraction_a_fraction():
    settings = Settings.checked({"limit_train_batches": 1, "limit_val_batches": 1.0, "val_check_interval": 1})
    assert (type(settings.limit_train_batches), type(settings.limit_val_batches)) == (int, float)
    assert type(settings.val_check_interval) is int


def test_a_schedule_of_accumulation_begins_at_epoch_0_and_is_sorted():
    assert Settings.checked({"accumulate_grad_batches": {8: 2, 4: 4}}).accumulate_grad_batches == {0: 1, 4: 4, 8: 2}


def test_the_root_folder_is_absolute_and_an_address_stays():
    assert Settings.checked({"default_root_dir": "runs"}).default_root_dir == str(Path.cwd() / "runs")
    assert Settings.checked({"default_root_dir": "~/runs"}).default_root_dir == str(Path("~/runs").expanduser())
    assert Settings.checked({"default_root_dir": "s3://bucket/runs"}).default_root_dir == "s3://bucket/runs"


@pytest.mark.parametrize("limit", [{"max_steps": 10}, {"max_time": "00:01:00:00"}, {"max_time": "9 samples"}])
def test_another_limit_lifts_that_of_epochs(limit):
    settings = Settings.checked(limit)
    assert settings.max_epochs == -1
    settings.note_default_epochs()  # warns of nothing


def test_a_fit_that_nobody_limits_ends_after_1000_epochs_and_says_so():
    settings = Settings.checked({"max_steps": -1})
    assert settings.max_epochs == 1000
    with pytest.warns(LtWarning, match=r"training ends after 1000 epochs.*max_epochs.*\[LT142\]"):
        settings.note_default_epochs()


@pytest.mark.parametrize("given", [{"max_epochs": 1000}, {"max_epochs": -1}, {"max_steps": 5}, {"fast_dev_run": True}])
def test_a_fit_with_a_limit_says_nothing(given):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Settings.checked(given).note_default_epochs()


@pytest.mark.parametrize("asked, batches", [(True, 1), (1, 1), (7, 7)])
def test_fast_dev_run_takes_n_batches_of_everything_and_leaves_no_files(asked, batches):
    settings = Settings.checked({"fast_dev_run": asked, "max_epochs": 50, "val_check_interval": 0.25, "logger": True})
    assert [getattr(settings, name) for name in LIMITS] == [batches] * 4
    assert (settings.max_epochs, settings.max_steps, settings.num_sanity_val_steps) == (1, batches, 0)
    assert (settings.logger, settings.enable_checkpointing, settings.val_check_interval) == (False, False, 1.0)


@pytest.mark.parametrize("asked", [False, 0])
def test_no_fast_dev_run_changes_nothing(asked):
    assert Settings.checked({"fast_dev_run": asked, "max_epochs": 3}).max_epochs == 3


def test_barebones_turns_off_what_is_not_the_loop():
    settings = Settings.checked({"barebones": True})
    flags = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary", "detect_anomaly")
    assert [getattr(settings, flag) for flag in flags] == [False] * 5
    assert (settings.num_sanity_val_steps, settings.log_every_n_steps, settings.profiler) == (0, 0, None)


def test_barebones_agrees_with_what_is_off_already():
    Settings.checked({"barebones": True, "logger": False, "num_sanity_val_steps": 0, "fast_dev_run": False})


def test_overfit_batches_limits_training_and_validation():
    settings = Settings.checked({"overfit_batches": 3})
    assert (settings.limit_train_batches, settings.limit_val_batches, settings.limit_test_batches) == (3, 3, 1.0)


def test_overfit_batches_leaves_a_validation_that_is_off_alone():
    assert Settings.checked({"overfit_batches": 3, "limit_val_batches": 0}).limit_val_batches == 0


def test_all_problems_of_one_call_are_told_together():
    given = {"max_epochs": "5", "devices": 0, "min_steps": 5, "max_steps": 2, "barebones": True, "logger": True}
    with pytest.raises(ConfigError) as caught:
        Settings.checked(given)
    lines = str(caught.value).splitlines()
    assert lines[0] == "4 problems with the arguments of Trainer:"
    assert [line.split("=")[0].strip() for line in lines[1:5]] == ["max_epochs", "devices", "min_steps", "barebones"]
    assert not isinstance(caught.value, TypeError)


def test_only_wrong_types_together_are_a_type_error():
    with pytest.raises(ConfigTypeError, match="2 problems"):
        Settings.checked({"max_epochs": "5", "benchmark": 2})


def test_a_conflict_with_a_wrong_argument_is_not_told_twice():
    with pytest.raises(ConfigError) as caught:
        Settings.checked({"min_epochs": "7", "max_epochs": 3})
    assert "Raise" not in str(caught.value)


def test_an_unknown_argument_names_the_near_one():
    with pytest.raises(
        ConfigTypeError, match=r"max_epoch=3 is no argument of Trainer\(\)\. Did you mean 'max_epochs'\?"
    ):
        Settings.checked({"max_epoch": 3})


def test_numbers_of_numpy_count_as_numbers():
    numpy = pytest.importorskip("numpy")
    settings = Settings.checked({"max_epochs": numpy.int64(3), "gradient_clip_val": numpy.float32(0.5)})
    assert (settings.max_epochs, settings.gradient_clip_val) == (3, 0.5)


@pytest.mark.parametrize(
    "written, name",
    [
        (16, "16-mixed"),
        ("16", "16-mixed"),
        ("bf16", "bf16-mixed"),
        (32, "32-true"),
        ("64", "64-true"),
        ("Float32", "32-true"),
        (torch.float64, "64-true"),
        (torch.float16, "16-true"),
        (torch.bfloat16, "bf16-true"),
        (" bf16-mixed ", "bf16-mixed"),
        ("transformer-engine", "transformer-engine"),
        ("Posit8", "Posit8"),
    ],
)
def test_a_precision_of_any_spelling_has_one_name(written, name):
    assert canonical_precision(written) == name


@pytest.mark.parametrize(("written", "bits"), [("fp16", "16"), ("half", "16"), ("Float16", "16"), ("bfloat16", "bf16")])
def test_a_word_that_says_only_the_bits_is_an_error_that_names_both_formats(written, bits):
    with pytest.raises(ConfigError, match=rf"expected '{bits}-mixed' \(weights stay float32.*or '{bits}-true'.*LT145"):
        canonical_precision(written)


def test_the_incumbents_objects_are_recognized():
    foreign = type("EarlyStopping", (), {"__module__": "lightning.pytorch.callbacks.early_stopping"})()
    with pytest.raises(ConfigTypeError, match="It comes from lightning: import EarlyStopping from lt instead"):
        Settings.checked({"callbacks": [foreign]})


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ({"precision": 16}, "precision=16 is a spelling of 1.x: write precision='16-mixed'."),
        ({"precision": "bf16"}, "write precision='bf16-mixed'."),
    ],
)
def test_a_discouraged_value_is_taken_and_noted_with_the_new_spelling(given, note):
    with pytest.warns(LtDeprecationWarning, match=r"\[LT901\]") as noted:
        Settings.checked(given)
    assert [note in str(warning.message) for warning in noted] == [True]


def test_the_notes_of_a_call_can_be_silenced_in_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Settings.checked({"precision": 16, "model_registry": "mine", "silence": ["LT901", "LT147", "LT196"]})
    with pytest.warns(LtWarning, match="LT147"):
        Settings.checked({"model_registry": "mine"})
