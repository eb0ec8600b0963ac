"""A step leaves out torch's record for its profiler, and nothing else of ``optimizer.step()``."""

import functools

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from lt_core import Callback, LightningModule
from lt_loops import Trainer


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch):
        return self.layer(batch).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Scheduled(Net):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class After(Callback):
    """Does something with the optimizer after the second of six steps."""

    def __init__(self, action):
        self.action = action

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx == 1:
            self.action(trainer.optimizers[0])


def fit(module=None, action=None, **arguments):
    off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    torch.manual_seed(0)
    module = module or Net()
    callbacks = [] if action is None else [After(action)]
    trainer = Trainer(accelerator="cpu", max_epochs=1, callbacks=callbacks, **off, **arguments)
    trainer.fit(module, list(torch.ones(6, 2, 4)))
    return module


@pytest.fixture
def records(monkeypatch):
    """The names of what torch records for its profiler."""
    names, real = [], torch.autograd.profiler.record_function

    def recorded(name, *args):
        names.append(name)
        return real(name, *args)

    monkeypatch.setattr(torch.autograd.profiler, "record_function", recorded)
    return names


@pytest.mark.parametrize("kind", [Net, Scheduled])
@pytest.mark.parametrize("arguments", [{}, {"accumulate_grad_batches": 2}], ids=["plain", "accumulated"])
def test_a_step_is_not_recorded_where_no_profiler_runs(records, kind, arguments):
    fit(kind(), **arguments)
    assert not [name for name in records if name.startswith("Optimizer.step")]


def test_a_profiler_that_begins_in_the_middle_finds_the_steps():
    activities = [torch.profiler.ProfilerActivity.CPU]
    profiler = torch.profiler.profile(activities=activities, acc_events=True)  # torch 2.11 warns of the default
    fit(action=lambda optimizer: profiler.start())
    profiler.stop()
    counts = {event.key: event.count for event in profiler.key_averages()}
    assert counts["Optimizer.step#SGD.step"] == 4


@pytest.mark.parametrize("kind", [Net, Scheduled])
@pytest.mark.parametrize("of", ["register_step_pre_hook", "register_step_post_hook"])
def test_a_hook_that_is_registered_in_the_middle_is_called(kind, of):
    calls = []
    fit(kind(), lambda optimizer: getattr(optimizer, of)(lambda *args: calls.append(1)))
    assert len(calls) == 4


def test_a_hook_of_all_optimizers_is_called():
    calls, handles = [], []
    fit(action=lambda optimizer: handles.append(register_optimizer_step_pre_hook(lambda *args: calls.append(1))))
    handles[0].remove()
    assert len(calls) == 4


@pytest.mark.parametrize("kind", [Net, Scheduled])
def test_a_step_that_somebody_puts_into_the_optimizer_is_called(kind):
    calls = []

    def count(optimizer):
        real = optimizer.step

        @functools.wraps(real)
        def step(*args, **kwargs):
            calls.append(1)
            return real(*args, **kwargs)

        optimizer.step = step

    fit(kind(), count)
    assert len(calls) == 4


def test_a_wrapper_around_the_step_of_a_class_is_called(monkeypatch):
    calls = []

    class Own(torch.optim.SGD):
        pass

    class Net2(Net):
        def configure_optimizers(self):
            optimizer = Own(self.parameters(), lr=0.1)
            real = Own.step

            @functools.wraps(real)  # it looks as torch's own wrapper does, and stands around it
            def step(*args, **kwargs):
                calls.append(1)
                return real(*args, **kwargs)

            Own.step = step
            return optimizer

    fit(Net2())
    assert len(calls) == 6


@pytest.mark.parametrize("kind", [Net, Scheduled])
def test_weights_are_those_of_the_optimizers_own_step(kind):
    trained = fit(kind())
    recorded = fit(kind(), lambda optimizer: optimizer.register_step_pre_hook(lambda *args: None))
    assert torch.equal(trained.layer.weight, recorded.layer.weight)


def test_an_optimizer_of_the_users_own_takes_its_steps():
    class Plain(torch.optim.Optimizer):
        taken = 0

        def step(self):
            self.taken += 1

    class Net2(Net):
        def configure_optimizers(self):
            self.own = Plain(self.parameters(), {})
            return self.own

    assert fit(Net2()).own.taken == 6
