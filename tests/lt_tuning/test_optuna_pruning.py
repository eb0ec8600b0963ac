"""Pruning, by a stand-in of a trial; with Optuna itself: tests/integration/test_optuna.py."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from lt_core.errors import LogError
from lt_testing import FakeTrainer
from lt_tuning import OptunaPruning


class PrunedError(Exception):
    pass


class Trial:
    """Prunes at the second report."""

    number = 0

    def __init__(self):
        self.seen = {}
        self.study = SimpleNamespace(trials=[SimpleNamespace(intermediate_values=self.seen)])

    def report(self, value, step):
        assert step not in self.seen
        self.seen[step] = value

    def should_prune(self):
        return len(self.seen) > 1


@pytest.fixture(autouse=True)
def optuna(monkeypatch):
    module = ModuleType("optuna")
    module.TrialPruned = PrunedError
    monkeypatch.setitem(sys.modules, "optuna", module)


def validated(callback, *values):
    trainer = FakeTrainer(stage="fit", num_val_batches=[1])
    for value in values:
        trainer.callback_metrics = {"loss": value}
        callback.on_validation_end(trainer, trainer.lightning_module)
    return trainer


def test_a_pruned_trial_ends_the_fit_and_then_raises():
    trial = Trial()
    callback = OptunaPruning(trial, "loss")
    assert not validated(callback, 0.5).should_stop
    callback.teardown(FakeTrainer(), None, "fit")
    assert validated(callback, 0.7).should_stop
    assert trial.seen == {0: 0.5, 1: 0.7}
    with pytest.raises(PrunedError, match="loss = 0.7 at report 2"):
        callback.teardown(FakeTrainer(), None, "fit")


def test_a_sanity_check_is_not_reported():
    callback = OptunaPruning(Trial(), "loss")
    trainer = FakeTrainer(stage="fit", sanity_checking=True, callback_metrics={"loss": 1.0})
    callback.on_validation_end(trainer, trainer.lightning_module)
    assert callback.reports == []


def test_a_metric_that_is_not_logged_is_an_error_that_lists_what_is():
    callback = OptunaPruning(Trial(), "los")
    with pytest.raises(LogError, match="Logged so far: 'loss'.*Did you mean"):
        validated(callback, 0.5)


def test_a_state_brings_the_trial_the_reports_that_it_lacks():
    first, trial = OptunaPruning(Trial(), "loss"), Trial()
    validated(first, 0.5)
    trial.seen[0] = 0.5
    OptunaPruning(trial, "loss").load_state_dict({"reports": [0.5, 0.6], "pruned": False})
    assert trial.seen == {0: 0.5, 1: 0.6}
    assert first.state_dict() == {"reports": [0.5], "pruned": False}
