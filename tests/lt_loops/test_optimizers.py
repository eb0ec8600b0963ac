"""Every form in which configure_optimizers may return."""

import math
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, OneCycleLR, ReduceLROnPlateau, StepLR

from lt_core import HookError, LightningModule, LtDeprecationWarning, LtWarning
from lt_core.dialect import Policy
from lt_loops.run import schedulers
from lt_loops.setup.optimizers import parse_optimizers
from lt_loops.setup.scheduler_config import SchedulerConfig, check_schedule_length


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.gen, self.disc = nn.Linear(2, 2), nn.Linear(2, 1)


@pytest.fixture
def net():
    return Net()


@pytest.fixture
def a(net):
    return SGD(net.gen.parameters(), lr=0.1)


@pytest.fixture
def b(net):
    return Adam(net.disc.parameters())


@pytest.fixture
def step(a):
    return StepLR(a, 1)


FORMS = {
    "one": (lambda a, b, s, t: a, "a", ""),
    "list": (lambda a, b, s, t: [a, b], "ab", ""),
    "tuple": (lambda a, b, s, t: (a, b), "ab", ""),
    "list of one": (lambda a, b, s, t: [a], "a", ""),
    "two lists": (lambda a, b, s, t: ([a, b], [s, t]), "ab", "st"),
    "two tuples": (lambda a, b, s, t: ((a,), (s,)), "a", "s"),
    "a list of two lists": (lambda a, b, s, t: [[a], [s]], "a", "s"),
    "two lists, no scheduler": (lambda a, b, s, t: ([a], []), "a", ""),
    "list and one scheduler": (lambda a, b, s, t: ([a], s), "a", "s"),
    "list and one config": (lambda a, b, s, t: ([a], {"scheduler": s}), "a", "s"),
    "two lists with configs": (lambda a, b, s, t: ([a, b], [{"scheduler": s}, t]), "ab", "st"),
    "dict": (lambda a, b, s, t: {"optimizer": a}, "a", ""),
    "dict with scheduler": (lambda a, b, s, t: {"optimizer": a, "lr_scheduler": s}, "a", "s"),
    "dict with none": (lambda a, b, s, t: {"optimizer": a, "lr_scheduler": None}, "a", ""),
    "dict with config": (lambda a, b, s, t: {"optimizer": a, "lr_scheduler": {"scheduler": s}}, "a", "s"),
    "dict with schedulers": (lambda a, b, s, t: {"optimizer": a, "lr_scheduler": [s, StepLR(a, 2)]}, "a", "s?"),
    "dicts": (lambda a, b, s, t: ({"optimizer": a, "lr_scheduler": s}, {"optimizer": b}), "ab", "s"),
    "dict and optimizer": (lambda a, b, s, t: [{"optimizer": a, "lr_scheduler": s}, b], "ab", "s"),
    "named": (lambda a, b, s, t: {"gen": a, "disc": b}, "ab", ""),
    "one named": (lambda a, b, s, t: {"gen": a}, "a", ""),
    "named dicts": (lambda a, b, s, t: {"gen": {"optimizer": a, "lr_scheduler": s}, "disc": b}, "ab", "s"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_gives_its_optimizers_and_schedulers_in_order(form, net, a, b, step):
    other_step = StepLR(b, 1)
    returned, optimizers, schedulers = FORMS[form]
    made = parse_optimizers(returned(a, b, step, other_step), net)
    assert made.optimizers == [{"a": a, "b": b}[letter] for letter in optimizers]
    expected = [{"s": step, "t": other_step}.get(letter) for letter in schedulers]
    assert all(want in (None, config.scheduler) for want, config in zip(expected, made.schedulers, strict=True))
    assert (made.names is not None) == ("named" in form)


def test_named_optimizers_keep_their_names_and_order(net, a, b):
    assert parse_optimizers({"disc": b, "gen": a}, net).names == ["disc", "gen"]


def test_none_optimizes_nothing_and_says_so(net):
    with pytest.warns(LtWarning, match=r"nothing is optimized.*\[LT331\]"):
        made = parse_optimizers(None, net)
    assert (made.optimizers, made.names, made.schedulers) == ([], None, [])


def test_none_in_manual_optimization_is_what_it_is(net):
    net.automatic_optimization = False
    assert parse_optimizers(None, net).optimizers == []


def test_a_scheduler_knows_the_optimizer_that_it_drives(net, a, b, step):
    configs = parse_optimizers(([a, b], [StepLR(b, 1), step]), net).schedulers
    assert [config.optimizer for config in configs] == [b, a]


def test_a_config_keeps_all_that_the_user_set(net, a, step):
    settings = {
        "interval": "step",
        "frequency": 3,
        "monitor": "x",
        "strict": False,
        "name": "lr",
        "reduce_on_plateau": True,
    }
    (config,) = parse_optimizers({"optimizer": a, "lr_scheduler": {"scheduler": step, **settings}}, net).schedulers
    assert {name: getattr(config, name) for name in settings} == settings


def test_a_config_has_the_defaults_of_lightning(net, a, step):
    (config,) = parse_optimizers(([a], [step]), net).schedulers
    assert config == SchedulerConfig(scheduler=step, optimizer=a)
    assert (config.interval, config.frequency, config.strict, config.name) == ("epoch", 1, True, None)


@pytest.mark.parametrize("where", ["beside", "inside"])
def test_the_monitor_of_a_plateau_stands_beside_or_inside_its_config(where, net, a):
    plateau = ReduceLROnPlateau(a)
    inside = {"scheduler": plateau, "monitor": "val_loss"}
    beside = {"optimizer": a, "lr_scheduler": plateau, "monitor": "val_loss"}
    returned = beside if where == "beside" else {"optimizer": a, "lr_scheduler": inside, "monitor": "other"}
    (config,) = parse_optimizers(returned, net).schedulers
    assert (config.monitor, config.reduce_on_plateau) == ("val_loss", True)


def test_a_plateau_whose_hook_needs_no_metric_needs_no_monitor(net, a):
    config = {"scheduler": ReduceLROnPlateau(a), "reduce_on_plateau": False}
    assert parse_optimizers(([a], [config]), net).schedulers[0].monitor is None


def test_frequencies_of_1_x_come_with_the_optimizers(net, a, b):
    made = parse_optimizers([{"optimizer": a, "frequency": 5}, {"optimizer": b, "frequency": 1}], net)
    assert made.frequencies == [5, 1]
    assert parse_optimizers([a, b], net).frequencies is None


def test_opt_idx_of_1_x_is_taken_with_a_note(net, a, step):
    with pytest.warns(LtDeprecationWarning, match=r"'opt_idx'.*\[LT902\]"):
        (config,) = parse_optimizers(([a], [{"scheduler": step, "opt_idx": 0}]), net).schedulers
    assert config.optimizer is a


class Odd:
    """A scheduler of another library: its step needs the epoch."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self, epoch, metric=None):
        pass

    state_dict = load_state_dict = dict


def test_an_odd_scheduler_is_fine_where_the_module_steps_it(net, a):
    net.lr_scheduler_step = lambda scheduler, metric: scheduler.step(epoch=0)
    assert parse_optimizers(([a], [Odd(a)]), net).schedulers[0].optimizer is a


def test_the_modules_own_scheduler_step_is_looked_at_once_not_in_every_step(net, a, monkeypatch):
    looked, stepped = [], []
    monkeypatch.setattr(schedulers, "adapted", lambda hook, name, policy: looked.append(name) or hook)
    net.lr_scheduler_step = lambda scheduler, metric: stepped.append(metric)
    parts = SimpleNamespace(strategy=None)
    job = SimpleNamespace(module=net, limits=None, settings=None, parts=parts, policy=Policy())
    owner = schedulers.Schedulers(SimpleNamespace(job=job, position=None, agenda=None, recorder=None), None)
    owner.configure(parse_optimizers(([a], [{"scheduler": Odd(a), "interval": "step"}]), net).schedulers)
    for count in (1, 2, 3):
        owner.step("step", count)
    assert (looked, stepped) == (["lr_scheduler_step"], [None] * 3)


def test_an_optimizer_of_no_torch_class_is_taken_by_what_it_can(net, a):
    class Fused:
        param_groups = a.param_groups
        step = zero_grad = state_dict = load_state_dict = None

    fused = Fused()
    assert parse_optimizers(fused, net).optimizers == [fused]


def test_a_plain_tensor_of_the_users_may_be_optimized(net):
    log_alpha = torch.zeros(1, requires_grad=True)
    assert len(parse_optimizers(SGD([log_alpha], lr=0.1), net).optimizers) == 1


def test_some_parameters_of_another_module_are_warned_about(net):
    mixed = SGD([*net.gen.parameters(), nn.Parameter(torch.zeros(3, 5))], lr=0.1)
    with pytest.warns(LtWarning, match=r"1 of 3 parameters that are not Net's \(the first has shape \(3, 5\)\)"):
        parse_optimizers(mixed, net)


def test_frozen_parameters_are_no_mistake(net, a):
    net.gen.requires_grad_(False)
    assert parse_optimizers(a, net).optimizers == [a]


def config_of(scheduler, interval):
    return SchedulerConfig(scheduler=scheduler, interval=interval)


def test_a_schedule_in_steps_that_steps_by_epochs_is_warned_about(a):
    with pytest.warns(LtWarning, match=r"1000 steps long.*'epoch' it steps 10 times.*'interval': 'step'.*\[LT334\]"):
        check_schedule_length(config_of(CosineAnnealingLR(a, T_max=1000), "epoch"), steps=1000, epochs=10)


def test_a_one_cycle_that_ends_before_the_run_is_warned_about(a):
    schedule = OneCycleLR(a, max_lr=1.0, total_steps=100)
    with pytest.warns(LtWarning, match=r"100 steps long.*asks for 120.*estimated_stepping_batches.*\[LT334\]"):
        check_schedule_length(config_of(schedule, "step"), steps=120, epochs=1)


@pytest.mark.parametrize("steps, epochs", [(100, 1), (90, 1), (math.inf, math.inf), (3, 3)])
def test_a_schedule_that_fits_or_may_fit_is_not(a, steps, epochs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_schedule_length(config_of(OneCycleLR(a, max_lr=1.0, total_steps=100), "step"), steps, epochs)
        check_schedule_length(config_of(CosineAnnealingLR(a, T_max=50), "epoch"), steps=1000, epochs=50)
        check_schedule_length(config_of(CosineAnnealingLR(a, T_max=100), "epoch"), steps=1000, epochs=10)
        check_schedule_length(config_of(LambdaLR(a, lambda epoch: 1.0), "epoch"), steps=1000, epochs=10)


def test_a_wrong_return_says_all_forms(net):
    with pytest.raises(HookError, match=r"expected an optimizer, a list of optimizers, two lists .*, or None\."):
        parse_optimizers(3, net)
