"""Profilers of the user's own: with lt's interface, and as Lightning has them."""

from collections import Counter
from contextlib import contextmanager

import pytest
import torch

from lt_core import LightningModule
from lt_core.profiler import Profiler


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        with self.trainer.profiler.profile("mine"):
            return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class ByAction(Profiler):
    """As in Lightning's documentation."""

    def __init__(self, dirpath=None, filename=None):
        pytest.importorskip("lt_compat", reason="calls start(action_name)")
        super().__init__(dirpath=dirpath, filename=filename)
        self.calls, self.open, self.told = Counter(), [], []

    def setup(self, stage, local_rank=None, log_dir=None):
        self.told.append(f"setup {stage}")

    def start(self, action_name):
        self.open.append(action_name)

    def stop(self, action_name):
        assert self.open.pop() == action_name
        self.calls[action_name] += 1

    def summary(self):
        return f"{self.calls.total()} calls"

    def describe(self):
        self.told.append(self.summary())

    def teardown(self, stage):
        self.told.append(f"teardown {stage}")


class Wrapping(Profiler):
    def __init__(self):
        self.calls = Counter()

    def wrap(self, name, function):
        def counted(*args, **kwargs):
            self.calls[name] += 1
            return function(*args, **kwargs)

        return counted

    @contextmanager
    def profile(self, name):
        self.calls[name] += 1
        yield


@pytest.mark.parametrize("kind", [ByAction, Wrapping])
def test_a_profiler_of_the_users_own_sees_each_action(kind, trainer):
    profiler = kind()
    fit = trainer(profiler=profiler)
    fit.fit(Net(), [torch.ones(1, 1)] * 3)
    assert fit.profiler is profiler
    for name in ("training_step", "mine", "backward", "optimizer_step"):
        assert profiler.calls[name] == 3, name


@pytest.mark.parametrize("manual", [False, True], ids=["automatic", "manual"])
def test_a_step_that_evaluates_a_closure_is_measured_too(manual, trainer):
    class Evaluates(Net):
        automatic_optimization = not manual

        def training_step(self, batch, batch_idx):
            if self.automatic_optimization:
                return self.layer(batch).square().sum()
            optimizer = self.optimizers()

            def closure():
                optimizer.zero_grad()
                loss = self.layer(batch).square().sum()
                self.manual_backward(loss)
                return loss

            return optimizer.step(closure)

        def configure_optimizers(self):
            return torch.optim.LBFGS(self.parameters(), max_iter=2)

    profiler = Wrapping()
    trainer(profiler=profiler).fit(Evaluates(), [torch.ones(1, 1)] * 3)
    assert profiler.calls["optimizer_step"] == 3


def test_a_profiler_as_lightning_has_them_is_set_up_and_describes_itself_at_the_end(trainer):
    profiler = ByAction()
    trainer(profiler=profiler).fit(Net(), [torch.ones(1, 1)] * 3)
    assert profiler.told == ["setup fit", profiler.summary(), "teardown fit"]
    assert profiler.open == []


def test_an_action_that_fails_is_stopped_too(trainer):
    class Fails(Net):
        def training_step(self, batch, batch_idx):
            raise ArithmeticError("own")

    profiler = ByAction()
    with pytest.raises(ArithmeticError):
        trainer(profiler=profiler).fit(Fails(), [torch.ones(1, 1)])
    assert profiler.open == []
    assert profiler.calls["training_step"] == 1
