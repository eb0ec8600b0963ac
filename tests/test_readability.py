"""How many frames and calls of ours lie around the user's step: what a reader of a traceback must get through.

The figures are printed (``pytest -s`` or ``-rP``); the limits are those of ARCHITECTURE.md.
"""

import inspect
import re
import sys
import traceback
from pathlib import Path

import pytest
import torch
from torch import nn

from lt_core import LightningModule
from lt_loops import Trainer


def is_ours(filename: str) -> bool:
    """Return whether a file belongs to one of our packages, from the checkout or installed."""
    return re.search(r"/(src|site-packages)/(lt|lt_[a-z]+)/", filename) is not None


class Net(LightningModule):
    """A bare module that notes the frames above its step."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.frames = []

    def loss(self, batch):
        return self.layer(batch).pow(2).mean()

    def training_step(self, batch, batch_idx):
        if batch_idx == 2:
            self.frames = [
                f"{Path(f.filename).name}:{f.name}" for f in traceback.extract_stack() if is_ours(f.filename)
            ]
        return self.loss(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Logged(Net):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.log("loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        return loss


class WithClosure(Net):
    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), max_iter=2)


class Lion(torch.optim.SGD):
    """An optimizer from outside torch, with an optional closure."""

    def step(self, closure=None):
        return super().step(closure)


class WithOptionalClosure(Net):
    def configure_optimizers(self):
        return Lion(self.parameters(), lr=0.1)


class WithOwnStep(Net):
    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        optimizer.step(closure=optimizer_closure)


class Manual(Net):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        super().training_step(batch, batch_idx)
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self.loss(batch))
        optimizer.step()


def bare(**arguments):
    off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return Trainer(**{"accelerator": "cpu", "max_epochs": 1, **off, **arguments})


def batches(count=8):
    return [torch.ones(2, 4) for _ in range(count)]


@pytest.mark.parametrize(
    ("kind", "arguments", "most"),
    [
        (Net, {}, 5),
        (Logged, {}, 5),
        (WithOptionalClosure, {}, 5),
        (Net, {"accumulate_grad_batches": 2}, 9),
        (WithClosure, {}, 9),
        (WithOwnStep, {}, 9),
        (Manual, {}, 9),
    ],
    ids=["plain", "logged", "optional closure", "accumulated", "LBFGS", "own optimizer_step", "manual"],
)
def test_few_frames_of_ours_lie_between_fit_and_training_step(kind, arguments, most):
    module = kind()
    bare(**arguments).fit(module, batches())
    frames = module.frames
    print(f"{kind.__name__}: {len(frames)} frames: {' > '.join(frames)}")
    assert frames[0] == "trainer.py:fit"
    assert len(frames) <= most


def calls_per_step(module, trainer, loader):
    """Return the calls of our functions between the entries of two neighbouring training steps."""
    seen, found = None, {}

    def watch(frame, event, argument):
        nonlocal seen
        if event != "call":
            return
        code = frame.f_code
        if code is type(module).training_step.__code__:
            found[frame.f_locals["batch_idx"]], seen = seen, []
        elif seen is not None and is_ours(code.co_filename):
            seen.append(f"{Path(code.co_filename).name}:{code.co_name}")

    sys.setprofile(watch)
    try:
        trainer.fit(module, loader)
    finally:
        sys.setprofile(None)
    return found[5]


@pytest.mark.parametrize("kind", [Net, Logged, WithOptionalClosure])
def test_a_bare_step_makes_few_calls_of_ours(kind):
    calls = calls_per_step(kind(), bare(), batches())
    print(f"{kind.__name__}: {len(calls)} calls: {', '.join(calls)}")
    assert len(calls) <= 15


def test_the_default_step_with_bar_logger_and_checkpoint_stays_in_its_budget(tmp_path):
    pytest.importorskip("lt_callbacks")
    pytest.importorskip("lt_loggers")
    trainer = Trainer(
        accelerator="cpu", max_epochs=1, logger="csv", default_root_dir=tmp_path, enable_checkpointing=True
    )
    calls = calls_per_step(Logged(), trainer, batches())
    print(f"default: {len(calls)} calls: {', '.join(calls)}")
    assert len(calls) <= 15


class Wide(Logged):
    """A module with hooks whose signatures may differ from lt's."""

    def setup(self, stage):
        pass

    def on_train_batch_start(self, batch, batch_idx):
        pass

    def on_train_batch_end(self, outputs, batch):
        pass


def test_a_class_is_looked_at_once_however_often_it_is_fitted(monkeypatch, tmp_path):
    looked, signature = [], inspect.signature

    def counted(function, *args, **kwargs):
        looked.append(getattr(function, "__qualname__", str(function)))
        return signature(function, *args, **kwargs)

    for _ in range(2):
        looked.clear()
        with monkeypatch.context() as patch:
            patch.setattr(inspect, "signature", counted)
            Trainer(accelerator="cpu", max_epochs=1, default_root_dir=tmp_path).fit(Wide(), batches())
    print(f"{len(looked)} signatures: {', '.join(looked)}")
    # the training step for its arguments and its dialect, the optimizer's step, a hook that takes less each time anew
    assert len(looked) <= 8
