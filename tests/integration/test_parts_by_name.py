"""A part that is named is made, or the error says what to write in its place."""

import pytest

import lt as pl
from lt_core.errors import ConfigError, PluginError

QUIET = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False}


def test_a_callback_is_found_by_the_name_of_its_class_too():
    trainer = pl.Trainer(callbacks=["LearningRateMonitor", "timer", "NaNGuard"], **QUIET)
    names = [type(callback).__name__ for callback in trainer.callbacks]
    assert {"LearningRateMonitor", "Timer", "NaNGuard"} <= set(names)


def test_one_that_needs_arguments_says_which_beside_what_else_is_wrong():
    with pytest.raises(ConfigError) as raised:
        pl.Trainer(callbacks="early_stopping", strategy="dpp", **QUIET)
    assert "callback 'early_stopping' needs monitor. Pass the object itself: EarlyStopping(monitor=...)" in str(
        raised.value
    )
    assert "Did you mean 'ddp'?" in str(raised.value)


def test_a_misspelt_one_says_what_was_meant():
    with pytest.raises(PluginError, match="Did you mean 'early_stopping'"):
        pl.Trainer(callbacks="early_stoping", **QUIET)


def test_an_environment_that_is_not_in_force_says_so():
    with pytest.raises(ConfigError, match="plugins='slurm': this process is not in that environment.*Leave it out"):
        pl.Trainer(plugins="slurm", **QUIET)
