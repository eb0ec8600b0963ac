"""A duration of 0 means at once: a limit is reached before the first batch, an interval is over after each batch."""

from datetime import timedelta

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_callbacks import EarlyStopping, ModelCheckpoint, Timer
from lt_core import Callback, LightningModule
from lt_loops import Trainer
from lt_recipes import when

NOTHING = [{"seconds": 0}, timedelta(0), "0 s", "00:00:00:00"]
COUNTS = ["0 s", "0 steps", "0 batches", "0 epochs", "0 samples", "0 run"]


class Net(LightningModule):
    def __init__(self, interval=None):
        super().__init__()
        self.layer, self.interval = nn.Linear(4, 1), interval
        self.rates, self.validated = [], []

    def training_step(self, batch, batch_idx):
        self.rates.append(self.optimizers().param_groups[0]["lr"])
        loss = self.layer(batch[0]).square().mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", 1.0)
        self.validated.append(self.trainer.global_step)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=1.0)
        if self.interval is None:
            return optimizer
        halves = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": halves, "interval": self.interval}}


def fit(tmp_path, module=None, **arguments):
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    quiet |= {"num_sanity_val_steps": 0, "enable_checkpointing": bool(arguments.get("callbacks"))}
    defaults = {"max_epochs": 1, "default_root_dir": tmp_path, "accelerator": "cpu"}
    trainer = Trainer(**quiet | defaults | arguments)
    data = DataLoader(TensorDataset(torch.ones(8, 4)), 2)
    trainer.fit(module or Net(), data, data)
    return trainer


@pytest.mark.parametrize("nothing", NOTHING)
@pytest.mark.parametrize("epochs", [-1, None])
def test_a_limit_of_nothing_trains_nothing(tmp_path, epochs, nothing):
    trainer = fit(tmp_path, max_epochs=epochs, max_time=nothing)
    assert trainer.global_step == 0
    assert "reached" in trainer.stop_reason


@pytest.mark.parametrize("nothing", ["0 steps", "0 epochs", "0 samples"])
def test_a_longest_duration_of_nothing_trains_nothing(tmp_path, nothing):
    assert fit(tmp_path, max_epochs=None, max_time=nothing).global_step == 0


@pytest.mark.parametrize("nothing", NOTHING)
def test_a_timer_of_nothing_stops_at_once(tmp_path, nothing):
    assert fit(tmp_path, callbacks=[Timer(nothing), ModelCheckpoint(tmp_path)], max_epochs=9).global_step <= 1


@pytest.mark.parametrize(
    "every", [{"train_time_interval": nothing} for nothing in NOTHING] + [{"every": e} for e in COUNTS]
)
def test_a_checkpoint_at_intervals_of_nothing_is_saved_after_each_batch(tmp_path, every):
    keeps = ModelCheckpoint(tmp_path / "files", filename="{step}", save_top_k=-1, **every)
    fit(tmp_path, callbacks=keeps)
    assert sorted(path.stem for path in (tmp_path / "files").glob("*.ckpt")) == [f"step={n}" for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("interval", [*NOTHING, *COUNTS])
def test_validations_at_intervals_of_nothing_come_after_each_batch(tmp_path, interval):
    module = Net()
    fit(tmp_path, module, val_check_interval=interval, limit_val_batches=1)
    assert module.validated == [1, 2, 3, 4]


@pytest.mark.parametrize("interval", ["0 s", "0 steps", "0 samples"])
def test_rows_at_intervals_of_nothing_come_at_each_step(tmp_path, interval):
    trainer = fit(tmp_path, log_every_n_steps=interval)
    assert trainer.log_every_n_steps == 1
    assert Trainer(log_every_n_steps=0, logger=False).log_every_n_steps == 0


@pytest.mark.parametrize("interval", ["0 steps", "0 epochs", "0 samples"])
def test_a_scheduler_at_intervals_of_nothing_steps_at_each_step(tmp_path, interval):
    module = Net(interval)
    fit(tmp_path, module)
    assert module.rates == [1.0, 0.5, 0.25, 0.125]


@pytest.mark.parametrize("patience", COUNTS)
def test_patience_of_nothing_stops_at_the_first_value_that_is_not_better(tmp_path, patience):
    stops = EarlyStopping("val", patience=patience, verbose=False)
    assert fit(tmp_path, callbacks=[stops, ModelCheckpoint(tmp_path)], max_epochs=9).global_step == 8


class Counts(Callback):
    def __init__(self):
        self.each = self.first = 0

    @when(every="0 s")
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.each += 1

    @when(once="0 samples")
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.first += 1
        assert batch_idx == 0


def test_a_hook_at_intervals_of_nothing_is_called_each_time(tmp_path):
    counts = Counts()
    fit(tmp_path, callbacks=[counts, ModelCheckpoint(tmp_path)])
    assert (counts.each, counts.first) == (4, 1)


@pytest.mark.parametrize("negative", [timedelta(seconds=-1), {"seconds": -1}])
def test_a_duration_below_nothing_is_an_error(negative):
    with pytest.raises(ValueError, match="not negative"):
        Trainer(max_time=negative)
