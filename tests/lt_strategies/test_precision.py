import copy
import gc
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler

from lt_core import plugins
from lt_core.errors import ConfigError, LtWarning
from lt_core.strategy import Strategy
from lt_strategies.precision.dtypes import Mixed, ScaledMixed, TruePrecision
from lt_testing import PrecisionKit


class TestDouble(PrecisionKit):
    def make_precision(self):
        return plugins.load("precision", "64-true")()


class TestHalf(PrecisionKit):
    def make_precision(self):
        return plugins.load("precision", "16-true")()


class TestBrainFloat(PrecisionKit):
    def make_precision(self):
        return plugins.load("precision", "bf16-true")()


class TestMixedBrainFloat(PrecisionKit):
    def make_precision(self):
        return plugins.load("precision", "bf16-mixed")()


class TestMixedHalf(PrecisionKit):
    def make_precision(self):
        return plugins.load("precision", "16-mixed")()


def small_module():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def batches(count):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(16, 4, generator=generator) for _ in range(count)]


def train(precision, module, data, lr=0.1):
    """The loop that lt_loops runs, on the Strategy and Precision interfaces only."""
    strategy = Strategy()
    module, (optimizer,) = strategy.setup(module, lambda: [torch.optim.SGD(module.parameters(), lr=lr)], precision)
    step = precision.wrap_step(lambda batch: module(batch).pow(2).mean())
    stepped = []
    for batch in data:
        loss = step(precision.convert_input(batch))
        optimizer.zero_grad()
        strategy.backward(precision.scale_loss(loss))
        precision.unscale(optimizer)
        stepped.append(precision.step(optimizer, lambda: strategy.optimizer_step(optimizer)))
    return module, stepped


@pytest.mark.parametrize("name", ["64-true", "16-true", "bf16-true", "16-mixed", "bf16-mixed"])
def test_each_precision_is_found_by_its_name(name):
    assert plugins.load("precision", name)().name == name


def test_double_precision_equals_plain_torch_in_double():
    module, _ = train(TruePrecision("64-true"), small_module(), batches(5))
    reference = small_module().double()
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    for batch in batches(5):
        loss = reference(batch.double()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for mine, theirs in zip(module.parameters(), reference.parameters(), strict=True):
        assert mine.dtype == torch.float64
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("name", ["64-true", "16-true", "bf16-true"])
def test_true_precision_leaves_complex_numbers_and_integers_alone(name):
    module = nn.Linear(2, 2)
    module.register_buffer("waves", torch.tensor([1 + 2j]))
    module.register_buffer("count", torch.tensor([1]))
    TruePrecision(name).convert_module(module)
    assert module.waves.tolist() == [1 + 2j]
    assert module.count.dtype == torch.int64
    assert module.weight.dtype == TruePrecision(name).dtype


def test_true_precision_is_torch_s_default_inside_the_step_only():
    step = TruePrecision("bf16-true").wrap_step(lambda: torch.ones(1).dtype)
    assert step() == torch.bfloat16
    assert torch.get_default_dtype() == torch.float32


def test_true_precision_converts_floating_point_inputs_of_any_nesting():
    batch = TruePrecision("16-true").convert_input({"x": [torch.ones(2)], "y": torch.ones(2, dtype=torch.int64)})
    assert batch["x"][0].dtype == torch.float16
    assert batch["y"].dtype == torch.int64


def test_new_modules_get_the_precision_inside_its_init_context():
    with TruePrecision("bf16-true").init_context():
        assert nn.Linear(2, 2).weight.dtype == torch.bfloat16


def test_bf16_mixed_equals_plain_autocast():
    module, _ = train(Mixed(), small_module(), batches(5))
    reference = small_module()
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    for batch in batches(5):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = reference(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for mine, theirs in zip(module.parameters(), reference.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_16_mixed_equals_a_loop_with_a_gradscaler():
    precision = ScaledMixed(GradScaler("cpu", growth_interval=2))
    module, _ = train(precision, small_module(), batches(6))
    reference, scaler = small_module(), GradScaler("cpu", growth_interval=2)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    for batch in batches(6):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = reference(batch).pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    for mine, theirs in zip(module.parameters(), reference.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert precision.state_dict() == scaler.state_dict()


def test_an_overflowing_step_is_skipped_and_the_scale_falls():
    precision = ScaledMixed(GradScaler("cpu", init_scale=8.0))
    data = batches(3)
    data[1] = torch.full((16, 4), float("inf"))
    module, stepped = train(precision, small_module(), data)
    assert stepped == [True, False, True]
    assert precision.state_dict()["scale"] == 4.0
    assert all(torch.isfinite(p).all() for p in module.parameters())


def test_two_optimizers_that_step_in_one_window_are_unscaled_once_each():
    precision, strategy = ScaledMixed(GradScaler("cpu", init_scale=1024.0)), Strategy()
    module = small_module()
    reference = copy.deepcopy(module)
    first, second = (torch.optim.SGD(module[i].parameters(), lr=0.1) for i in (0, 2))
    precision.open(torch.device("cpu"))
    loss = module(batches(1)[0]).pow(2).mean()
    strategy.backward(precision.scale_loss(loss))
    for optimizer in (first, second):
        precision.unscale(optimizer)
    for optimizer in (first, second):
        precision.step(optimizer, lambda optimizer=optimizer: strategy.optimizer_step(optimizer))
    reference(batches(1)[0]).pow(2).mean().backward()
    torch.optim.SGD(reference.parameters(), lr=0.1).step()
    for mine, theirs in zip(module.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)


def test_the_scaler_goes_on_where_its_state_was_saved():
    precision = ScaledMixed(GradScaler("cpu", init_scale=8.0))
    data = batches(2)
    data[1] = torch.full((16, 4), float("inf"))
    train(precision, small_module(), data)
    resumed = ScaledMixed()
    resumed.open(torch.device("cpu"))
    resumed.load_state_dict(precision.state_dict())
    assert resumed.state_dict() == precision.state_dict()


def test_an_optimizer_without_any_gradient_steps_without_the_scaler():
    precision = ScaledMixed()
    optimizer = torch.optim.SGD(small_module().parameters(), lr=0.1)
    precision.unscale(optimizer)
    assert precision.step(optimizer, lambda: True)


@pytest.mark.parametrize("emulated", [False, True])
@pytest.mark.parametrize("make", [Mixed, lambda: TruePrecision("bf16-true"), ScaledMixed, TruePrecision])
def test_a_gpu_that_emulates_bfloat16_is_said(make, emulated, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: not emulated)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    precision = make()
    said = emulated and precision.dtype is torch.bfloat16
    with pytest.warns(LtWarning, match=r"Tesla T4 emulates bfloat16.*LT736") if said else nullcontext():
        precision.open(torch.device("cuda", 0))


def test_an_unknown_true_precision_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"expected one of 64-true.*Did you mean '16-true'"):
        TruePrecision("16-tru")


def test_an_optimizer_of_an_earlier_run_is_not_kept():
    precision = ScaledMixed()
    precision.open(torch.device("cpu"))
    layer = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    precision.scale_loss(layer(torch.ones(1, 2)).sum()).backward()
    precision.unscale(optimizer)
    precision.step(optimizer, lambda: True)
    kept = weakref.ref(optimizer)
    del optimizer
    precision.open(torch.device("cpu"))
    gc.collect()
    assert kept() is None


def test_mixed_and_half_take_lightnings_spellings():
    assert Mixed("bf16-mixed", "cpu").dtype is Mixed(precision="bf16-mixed").dtype is torch.bfloat16
    assert TruePrecision(precision="bf16-true").name == "bf16-true"
    with pytest.raises(ConfigError, match=r"ScaledMixed\(scaler\)"):
        Mixed("16-mixed", "cuda", scaler=object())
