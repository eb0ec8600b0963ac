"""Events of the user's own, and hooks that are called only now and then."""

import pytest
import torch
from torch import nn

from lt_callbacks import LambdaCallback, when
from lt_core import Callback, LightningModule
from lt_core.errors import ConfigError
from lt_loops import Trainer

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


@pytest.mark.parametrize("arguments", [{}, {"every": 2, "once": 1}, {"every": 0}])
def test_a_filter_has_one_number(arguments):
    with pytest.raises(ConfigError, match="expected one of both"):
        when(**arguments)


def test_what_has_nothing_to_count_is_refused():
    with pytest.raises(ConfigError, match=r"when\(\.\.\.\) on 'on_validation_batch_end'"):
        LambdaCallback(on_validation_batch_end=when(every=2)(lambda *args: None))
