"""A scaler of gradients, and gradients, of one fit are not those of the next; of a fit that goes on they are."""

import pytest
import torch
from torch import nn
from torch.amp import GradScaler
from torch.utils.data import DataLoader, TensorDataset

from lt_core import LightningModule
from lt_loops import Trainer
from lt_strategies.precision.dtypes import ScaledMixed

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


class Net(LightningModule):
    """Fails in a hook of the fourth step where it is told to."""

    fails_in = ""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layer = nn.Linear(4, 1)

    def fail(self, hook):
        if self.fails_in == hook and self.global_step == 3:
            raise ArithmeticError

    def training_step(self, batch, batch_idx):
        self.fail("training_step")
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch, batch_idx):
        pass

    def on_after_backward(self):
        self.fail("on_after_backward")

    def on_before_optimizer_step(self, optimizer):
        self.fail("on_before_optimizer_step")

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.fail("on_train_batch_end")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class ByHand(Net):
    """Adds up the gradients of two batches, and clears them behind the step, as a loop by hand may."""

    automatic_optimization = False

    def training_step(self, batch, batch_idx):
        self.manual_backward(self.layer(batch[0]).square().mean())
        if batch_idx % 2:
            self.optimizers().step()
            self.optimizers().zero_grad()
        elif self.global_step == 2:
            self.fails_in and self.fail_now()

    def fail_now(self):
        raise ArithmeticError


def data():
    return DataLoader(TensorDataset(torch.rand(24, 4, generator=torch.Generator().manual_seed(1))), 4)


def trainer(plugin, epochs=2):
    return Trainer(accelerator="cpu", max_epochs=epochs, plugins=[plugin], **QUIET)


def scaled():
    return ScaledMixed(GradScaler("cpu", init_scale=2.0**18, growth_interval=3))  # its first steps overflow


def by_another_trainer(first, plugin):
    first.fit(Net(), data())
    return trainer(plugin)


def by_the_same_trainer(first, plugin):
    first.fit(Net(), data())
    return first


def after_evaluations(first, plugin):
    first.validate(net := Net(), data(), verbose=False)
    first.fit(net, data())
    first.validate(net, data(), verbose=False)
    return first


def after_a_failure_in(hook):
    def use(first, plugin):
        net = Net()
        net.fails_in = hook
        with pytest.raises(ArithmeticError):
            first.fit(net, data())
        return first

    return use


HOOKS = ["training_step", "on_after_backward", "on_before_optimizer_step", "on_train_batch_end"]
USES = [by_another_trainer, by_the_same_trainer, after_evaluations, *map(after_a_failure_in, HOOKS)]


@pytest.mark.parametrize("use", USES)
def test_a_used_scaler_serves_a_second_fit_as_a_new_one_does(use):
    found = []
    for plugin in (scaled(), scaled()):
        second = trainer(plugin) if found else use(trainer(plugin), plugin)
        second.fit(net := Net(), data())
        found.append((plugin.state_dict(), net.layer.weight.tolist(), second.global_step))
    assert found[0] == found[1]


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_fit_that_goes_on_has_the_scale_of_the_last_one(evaluates):
    whole, parts, net, other = scaled(), scaled(), Net(), Net()
    trainer(whole, 4).fit(net, data())
    two = trainer(parts)
    two.fit(other, data())
    if evaluates:
        two.validate(other, data(), verbose=False)
    two.max_epochs = 4
    two.fit(other, data())
    assert parts.state_dict() == whole.state_dict()
    assert torch.equal(net.layer.weight, other.layer.weight)


@pytest.mark.parametrize("left", ["by a fit that failed", "by the user"])
def test_gradients_from_before_a_fit_count_in_none_of_its_steps(left):
    one, net, fresh = Trainer(accelerator="cpu", max_epochs=2, **QUIET), ByHand(), ByHand()
    if left == "by the user":
        net.layer(torch.ones(1, 4)).sum().backward()
    else:
        net.fails_in = "training_step"
        with pytest.raises(ArithmeticError):
            one.fit(net, data())
        net.fails_in = ""
        net.load_state_dict(fresh.state_dict())
    one.fit(net, data())
    Trainer(accelerator="cpu", max_epochs=2, **QUIET).fit(fresh, data())
    assert torch.equal(net.layer.weight, fresh.layer.weight)
