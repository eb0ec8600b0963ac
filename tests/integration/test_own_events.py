"""Events of the user's own, and hooks that are called only now and then."""

import gc
import pickle
import weakref
from datetime import timedelta

import pytest
import torch
from torch import nn

from lt_callbacks import LambdaCallback, ModelCheckpoint
from lt_core import Callback, LightningModule
from lt_core.errors import ConfigError
from lt_loops import Trainer
from lt_recipes import when

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


class Line(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.heard = nn.Linear(1, 1), []

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(module=None, callbacks=(), **arguments):
    module = module or Line()
    path = arguments.pop("ckpt_path", None)
    trainer = Trainer(**{"accelerator": "cpu", "max_epochs": 3, **QUIET, **arguments}, callbacks=list(callbacks))
    trainer.fit(module, list(torch.ones(5, 2, 1)), ckpt_path=path)
    return trainer


def test_an_own_event_is_heard_by_all_who_have_its_method():
    class Speaks(Line):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            if batch_idx == 4:
                self.trainer.call("on_plateau", loss.detach(), epoch=self.current_epoch)
            return loss

        def on_plateau(self, loss, epoch):
            self.heard.append(("module", epoch))

    class Listens(Callback):
        def on_plateau(self, trainer, pl_module, loss, epoch):
            pl_module.heard.append(("callback", epoch))
            self.log("plateau", loss)

    module = Speaks()
    trainer = fit(module, [Listens(), Callback()])
    assert module.heard == [(who, epoch) for epoch in range(3) for who in ("callback", "module")]
    assert "plateau" in trainer.callback_metrics


def test_a_hook_is_no_event():
    trainer = fit()
    with pytest.raises(ConfigError, match=r"on_train_start.*this is a hook"):
        trainer.call("on_train_start")


class Counts(Callback):
    def __init__(self):
        self.seen = []

    @when(every=4)
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.seen.append(("end", trainer.current_epoch, batch_idx))

    @when(once=7)
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.seen.append(("start", trainer.current_epoch, batch_idx))

    @when(every=2)
    def on_train_epoch_end(self, trainer, pl_module):
        self.seen.append(("epoch", trainer.current_epoch))

    @when(once=15)
    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self.seen.append(("step", trainer.global_step))


SEEN = [("end", 0, 3), ("start", 1, 1), ("end", 1, 2), ("epoch", 1), ("end", 2, 1), ("step", 14)]


def test_hooks_are_called_every_n_and_once():
    callback = Counts()
    fit(callbacks=[callback])
    assert callback.seen == SEEN


@pytest.mark.parametrize("steps", [3, 4, 12])
def test_a_resume_goes_on_counting(tmp_path, steps):
    first, second = Counts(), Counts()
    fit(callbacks=[first], max_steps=steps).save_checkpoint(tmp_path / "half.ckpt")
    fit(callbacks=[second], ckpt_path=tmp_path / "half.ckpt")
    assert first.seen + second.seen == SEEN


def test_hooks_of_modules_and_functions_are_filtered_too():
    class Watched(Line):
        @when(every=6)
        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.heard.append(self.global_step)

    module, epochs = Watched(), []
    once = when(once=2)(lambda trainer, pl_module: epochs.append(trainer.current_epoch))
    fit(module, [LambdaCallback(on_train_epoch_start=once)])
    assert module.heard == [6, 12]
    assert epochs == [1]


def test_a_function_without_a_name_counts_by_the_hook_it_is_in_a_class():
    batches = []

    class Watch(Callback):
        on_train_batch_end = when(every=6)(lambda self, trainer, *_: batches.append(trainer.total_batches))

    fit(callbacks=[Watch()])
    assert batches == [6, 12]


def test_a_hook_is_called_by_time():
    called = []
    often = when(every=timedelta(microseconds=1))(lambda *arguments: called.append(1))
    fit(callbacks=[LambdaCallback(on_train_batch_end=often)])
    assert called


@pytest.mark.parametrize("arguments", [{}, {"every": 2, "once": 1}, {"every": 0}])
def test_a_filter_has_one_number(arguments):
    with pytest.raises(ConfigError, match="expected one of the two"):
        when(**arguments)


def test_what_has_nothing_to_count_is_refused():
    with pytest.raises(ConfigError, match=r"when\(\.\.\.\) on 'on_validation_batch_end'"):
        LambdaCallback(on_validation_batch_end=when(every=2)(lambda *args: None))


class Reached(Callback):
    """Notes the batches at which multiples of a duration are reached."""

    def __init__(self):
        self.every_four, self.half, self.later = [], [], []

    @when(every="4 samples")
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.every_four.append(trainer.total_batches)

    @when(once="0.5 run")
    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self.half.append(trainer.total_batches)


def by_duration(callbacks, epochs=2, path=None):
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    saves = any(isinstance(callback, ModelCheckpoint) for callback in callbacks)
    trainer = Trainer(accelerator="cpu", max_epochs=epochs, callbacks=callbacks, enable_checkpointing=saves, **quiet)
    trainer.fit(Pairs(), ckpt_path=path)
    return trainer


class Pairs(LightningModule):
    """Six batches of three samples in an epoch."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.ones(18, 2), batch_size=3)


FOURS = [2, 3, 4, 6, 7, 8, 10, 11, 12]  # 6, 9, 12, 18, 21, 24, 30, 33 and 36 samples


def test_a_hook_is_called_where_a_multiple_of_a_duration_is_reached(tmp_path):
    one, other = Reached(), Reached()
    trainer = by_duration([one], epochs=1)
    assert one.every_four == [batch for batch in FOURS if batch <= 6]
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    by_duration([other], path=tmp_path / "half.ckpt")
    assert other.every_four == [batch for batch in FOURS if batch > 6]
    by_duration([one])  # another Trainer begins to count anew
    assert one.every_four[-len(FOURS) :] == FOURS


def test_callbacks_of_one_class_count_each_by_itself_and_once_is_once():
    one, other = Reached(), Reached()
    by_duration([one])
    by_duration([other])
    assert one.every_four == other.every_four == FOURS
    assert one.half == other.half == [6]


def test_a_filter_by_a_duration_keeps_no_trainer_alive_and_crosses_to_other_processes():
    callback = LambdaCallback(on_train_batch_end=when(every="4 samples")(on_train_batch_end))
    trainer = weakref.ref(by_duration([callback]))
    gc.collect()
    assert trainer() is None
    by_duration(pickle.loads(pickle.dumps([callback])))


def on_train_batch_end(*args):
    pass


def test_checkpoints_come_at_multiples_of_a_duration(tmp_path):
    callback = ModelCheckpoint(tmp_path, filename="{step}", save_top_k=-1, every="4 samples")
    by_duration([callback], epochs=1)
    assert sorted(path.stem for path in tmp_path.glob("*.ckpt")) == [f"step={step}" for step in (2, 3, 4, 6)]
    assert pickle.loads(pickle.dumps(callback)).state_key == callback.state_key
    with pytest.raises(ConfigError, match="every='4 samples'"):
        ModelCheckpoint(every="4 samples", every_n_train_steps=3)
