import pytest
import torch

from lt_callbacks import (
    BasePredictionWriter,
    EarlyStopping,
    GradientAccumulationScheduler,
    LambdaCallback,
    ModelCheckpoint,
    OnExceptionCheckpoint,
    Timer,
)
from lt_core import LightningModule
from lt_core.callback import Callback
from lt_core.errors import ConfigError
from lt_core.interface import is_overridden
from lt_testing import FakeTrainer

# ---- accumulation ----------------------------------------------------------------------------------------------------


def test_accumulation_follows_the_schedule_and_the_trainer_gets_its_own_back():
    callback, trainer = GradientAccumulationScheduler({1: 4, 3: 2}), FakeTrainer()
    callback.on_fit_start(trainer, trainer.lightning_module)
    seen = []
    for trainer.current_epoch in range(5):
        callback.on_train_epoch_start(trainer, trainer.lightning_module)
        seen.append(trainer.accumulate_grad_batches)
    callback.teardown(trainer, trainer.lightning_module, "fit")
    assert seen == [1, 4, 4, 2, 2]
    assert trainer.accumulate_grad_batches == 1


def test_an_epoch_resumed_in_its_middle_has_its_count():
    callback, trainer = GradientAccumulationScheduler({1: 4}), FakeTrainer(current_epoch=2)
    callback.on_fit_start(trainer, trainer.lightning_module)
    assert trainer.accumulate_grad_batches == 4


@pytest.mark.parametrize("scheduling", [{}, {-1: 2}, {0: 0}, {0: 1.5}, [4]])
def test_wrong_schedules_are_refused(scheduling):
    with pytest.raises(ConfigError, match="GradientAccumulationScheduler"):
        GradientAccumulationScheduler(scheduling)


def test_contradictions_are_refused():
    callback, manual = GradientAccumulationScheduler({0: 2}), LightningModule()
    manual.automatic_optimization = False
    with pytest.raises(ConfigError, match="accumulate_grad_batches=3"):
        callback.on_fit_start(FakeTrainer(accumulate_grad_batches=3), LightningModule())
    with pytest.raises(ConfigError, match="automatic_optimization"):
        callback.on_fit_start(FakeTrainer(), manual)


# ---- subclasses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (EarlyStopping, ["loss"]),
        (ModelCheckpoint, []),
        (Timer, []),
        (GradientAccumulationScheduler, [{0: 2}]),
        (OnExceptionCheckpoint, ["folder"]),
    ],
)
def test_a_class_that_a_user_puts_beside_a_callback_is_initialized(kind, given):
    class Beside:
        def __init__(self):
            self.notes = []

    assert type("Both", (kind, Beside), {})(*given).notes == []


# ---- functions -------------------------------------------------------------------------------------------------------


def test_functions_are_hooks_and_only_those_given():
    callback = LambdaCallback(on_train_start=lambda trainer, module: trainer.print("hi"), setup=None)
    trainer = FakeTrainer()
    callback.on_train_start(trainer, trainer.lightning_module)
    assert trainer.printed == ["hi"]
    assert is_overridden(callback, "on_train_start", Callback)
    assert not is_overridden(callback, "on_train_end", Callback)


def test_a_misspelt_hook_is_refused_with_the_right_one():
    with pytest.raises(ConfigError, match="Did you mean 'on_train_start'"):
        LambdaCallback(on_training_start=print)


# ---- exceptions ------------------------------------------------------------------------------------------------------


def test_an_exception_leaves_a_checkpoint(tmp_path):
    callback, trainer = OnExceptionCheckpoint(tmp_path), FakeTrainer(global_step=3)
    callback.on_exception(trainer, trainer.lightning_module, ValueError())
    assert trainer.saved == []  # before training begins
    callback.on_train_start(trainer, trainer.lightning_module)
    callback.on_exception(trainer, trainer.lightning_module, ValueError())
    assert torch.load(callback.ckpt_path, weights_only=True)["global_step"] == 3
    trainer.stage = "test"
    callback.on_exception(trainer, trainer.lightning_module, ValueError())
    assert len(trainer.saved) == 1


@pytest.mark.parametrize("filename", ["", "../x"])
def test_a_name_that_is_none_or_leads_away_is_refused(filename):
    with pytest.raises(ConfigError, match="OnExceptionCheckpoint"):
        OnExceptionCheckpoint("x", filename)


# ---- predictions -----------------------------------------------------------------------------------------------------


class Writer(BasePredictionWriter):
    def __init__(self, interval):
        super().__init__(interval)
        self.batches, self.epochs = [], []

    def write_on_batch_end(self, trainer, module, prediction, batch_indices, batch, batch_idx, dataloader_idx):
        self.batches.append((prediction, batch_indices, batch_idx, dataloader_idx))

    def write_on_epoch_end(self, trainer, module, predictions, batch_indices):
        self.epochs.append((predictions, batch_indices))


def predict(writer, loaders):
    trainer = FakeTrainer(num_predict_batches=[2] * loaders)
    module = trainer.lightning_module
    writer.on_predict_start(trainer, module)
    for loader in range(loaders):
        for i in range(2):
            trainer.indices = [2 * i, 2 * i + 1]
            writer.on_predict_batch_end(trainer, module, f"p{loader}{i}", None, i, loader)
    writer.on_predict_end(trainer, module)
    return writer


def test_predictions_are_written_batch_by_batch():
    writer = predict(Writer("batch"), 1)
    assert writer.batches == [("p00", [0, 1], 0, 0), ("p01", [2, 3], 1, 0)]
    assert writer.epochs == []


def test_predictions_of_the_epoch_are_written_at_its_end():
    assert predict(Writer("epoch"), 1).epochs == [(["p00", "p01"], [[[0, 1], [2, 3]]])]
    (written,) = predict(Writer("batch_and_epoch"), 2).epochs
    assert written == ([["p00", "p01"], ["p10", "p11"]], [[[0, 1], [2, 3]], [[0, 1], [2, 3]]])


def test_a_wrong_interval_is_refused():
    with pytest.raises(ConfigError, match="write_interval.*expected 'batch' or 'epoch' or 'batch_and_epoch'"):
        Writer("epochs")
