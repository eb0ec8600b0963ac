import pytest
import torch

from lt_callbacks import (
    BasePredictionWriter,
    EarlyStopping,
    LambdaCallback,
    ModelCheckpoint,
    OnExceptionCheckpoint,
    Timer,
)
from lt_core.callback import Callback
from lt_core.errors import ConfigError
from lt_core.interface import is_overridden
from lt_testing import FakeTrainer

# ---- subclasses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (EarlyStopping, ["loss"]),
        (ModelCheckpoint, []),
        (Timer, []),
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


def test_a_checkpoint_of_an_exception_may_go_to_an_address():
    assert OnExceptionCheckpoint("s3://bucket/run").ckpt_path == "s3://bucket/run/on_exception.ckpt"


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
