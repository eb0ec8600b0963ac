"""A weight that a step uses twice: lt casts it once, as torch.autocast does; Lightning's Trainer at each use."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.utils.data import DataLoader

from lt_core import LightningModule
from lt_loops import Trainer

pytest.importorskip("lt_compat")

from lt_compat.lightning.constructors import MixedPrecision
from lt_compat.lightning.fabric import Fabric
from lt_compat.lightning.trainer import trainer_class

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
DTYPES = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


class Twice(LightningModule):
    """A layer that is used twice, trained by the Trainer or by hand."""

    def __init__(self, by_hand=False):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)
        self.automatic_optimization, self.gradients = not by_hand, []

    def loss(self, x):
        return self.layer(self.layer(x).tanh()).pow(2).mean()

    def training_step(self, batch, batch_idx):
        if self.automatic_optimization:
            return self.loss(batch)
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self.loss(batch))
        optimizer.step()
        return None

    def on_before_optimizer_step(self, optimizer):
        self.gradients += [parameter.grad.clone() for parameter in self.parameters()]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def data():
    return torch.rand(6, 2, 8, generator=torch.Generator().manual_seed(1))


def by_loop(dtype, cached):
    module = Twice()
    optimizer, scaler = module.configure_optimizers(), GradScaler("cpu", enabled=dtype is torch.float16)
    for batch in data():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, cache_enabled=cached):
            loss = module.loss(batch)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        module.on_before_optimizer_step(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return module.gradients


def by_trainer(kind, by_hand=False, **arguments):
    module = Twice(by_hand)
    trainer = kind(accelerator="cpu", max_epochs=1, **QUIET, **arguments)
    trainer.fit(module, DataLoader(data(), batch_size=None))
    return module.gradients


def equal(some, others):
    """Return whether gradients are equal to the last bit; those of a step that overflowed are NaN in both."""
    return len(some) == len(others) and all(
        torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in zip(some, others, strict=True)
    )


WAYS = {
    "by name": lambda name: {"precision": name},
    "as an object": lambda name: {
        "plugins": MixedPrecision(name, "cpu", GradScaler("cpu") if name == "16-mixed" else None)
    },
}


@pytest.mark.parametrize("name", DTYPES)
def test_the_gradients_of_a_weight_used_twice_differ_by_the_cache(name):
    assert not equal(by_loop(DTYPES[name], True), by_loop(DTYPES[name], False))


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", DTYPES)
def test_under_compat_each_use_casts_the_weight(name, way, by_hand):
    expected = by_loop(DTYPES[name], False)
    assert equal(by_trainer(trainer_class(), by_hand, **way(name)), expected)


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("name", DTYPES)
def test_lt_casts_the_weight_once_as_the_plain_loop_does(name, by_hand):
    assert equal(by_trainer(Trainer, by_hand, precision=name), by_loop(DTYPES[name], True))


def test_a_format_that_is_set_between_runs_casts_at_each_use_too():
    module, kind = Twice(), partial(trainer_class(), accelerator="cpu", max_epochs=1, **QUIET)
    trainer = kind(precision="32-true")
    trainer.strategy.precision_plugin = MixedPrecision("bf16-mixed", "cpu")
    trainer.fit(module, DataLoader(data(), batch_size=None))
    assert equal(module.gradients, by_loop(torch.bfloat16, False))


def test_fabric_has_the_cache_as_lightnings_has():
    module = Twice()
    fabric = Fabric(accelerator="cpu", precision="bf16-mixed")
    optimizer = module.configure_optimizers()
    for batch in data():
        optimizer.zero_grad()
        with fabric.autocast():
            loss = module.loss(batch)
        fabric.backward(loss)
        module.on_before_optimizer_step(optimizer)
        optimizer.step()
    assert equal(module.gradients, by_loop(torch.bfloat16, True))
