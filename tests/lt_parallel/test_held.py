"""What each rank holds whole of a sharded model between forward, backward and step; hooks of sharded parameters."""

import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

import lt_parallel.kinds
from lt_core.errors import ConfigError
from lt_core.precision import Precision
from lt_parallel import FSDP, ModelParallel
from lt_parallel.kinds import step_by_kind
from lt_strategies import DDP, Mixed, ScaledMixed

pytestmark = pytest.mark.fsdp

WIDTH, ROWS = 24, 5


class Alive(TorchDispatchMode):
    """Notes the tensors that operations return and whether they still live."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.made += [weakref.ref(t) for t in (out if isinstance(out, (list, tuple)) else [out]) if torch.is_tensor(t)]
        return out

    def bytes(self, shapes):
        """Return the bytes of living tensors of these shapes, transposed ones too."""
        found = [t for ref in self.made if (t := ref()) is not None and not isinstance(t, DTensor)]
        whole = [t for t in found if tuple(t.shape) in shapes or tuple(t.shape[::-1]) in shapes]
        return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in whole}.values())


class Net(nn.Module):
    """Blocks with a norm that keeps statistics, timesteps as floats, and a loss with float targets."""

    def __init__(self, norm=nn.BatchNorm1d):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.blocks = nn.ModuleList(
                nn.Sequential(nn.Linear(WIDTH, 3 * WIDTH), norm(3 * WIDTH), nn.Tanh(), nn.Linear(3 * WIDTH, WIDTH))
                for _ in range(3)
            )
            self.head = nn.Linear(WIDTH, 7)

    def training_step(self, batch):
        x, times, wanted = batch
        assert times.dtype == wanted.dtype == x.dtype == torch.float32
        for block in self.blocks:
            x = x + block(x) * times.unsqueeze(1)
        self.scores = self.head(x).dtype
        return nn.functional.mse_loss(self.head(x), wanted)


def batch_of(index, rank):
    draw = torch.Generator().manual_seed(10 * index + rank)
    return tuple(torch.randn(*size, generator=draw) for size in ((ROWS, WIDTH), (ROWS,), (ROWS, 7)))


def trained(strategy, precision, window=2, module=None, steps=2):
    """Train; bytes of whole weights and gradients after each forward and backward, types, and the weights."""
    module = Net() if module is None else module
    shapes = {tuple(p.shape) for p in module.parameters() if p.dim() == 2}
    module, (optimizer,) = strategy.setup(
        module, lambda: [torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)], precision
    )
    step = precision.wrap_step(strategy.bind(module, "training_step"))
    held = []
    for number in range(steps):
        optimizer.zero_grad()
        for micro in range(window):
            with Alive() as alive, strategy.accumulating(module, micro + 1 == window):
                loss = step(batch_of(number * window + micro, strategy.data_shard.index))
                after_forward = alive.bytes(shapes)
                strategy.backward(loss / window)
                held.append((after_forward, alive.bytes(shapes)))
        strategy.optimizer_step(optimizer)
    return held[2:], (loss.dtype, module.scores), strategy.full_module_state(module)


WAYS = {
    "32": lambda: (FSDP(), Precision()),
    "bf16-mixed": lambda: (FSDP(), Mixed()),
    "16-mixed": lambda: (FSDP(), Mixed(torch.float16)),
    "bf16-mixed, gathered once": lambda: (FSDP(sharding_strategy="SHARD_GRAD_OP"), Mixed()),
    "bf16-mixed, a mesh": lambda: (ModelParallel(mesh={"data_shard": 2}, auto_wrap_policy={nn.Sequential}), Mixed()),
    "bf16-mixed, reduced once": lambda: (FSDP(sync_each_batch=False), Mixed()),
    "DDP": lambda: (DDP(), Mixed()),
}


def of_each_way(outer):
    found = {}
    for name, make in WAYS.items():
        strategy, precision = make()
        strategy.place(outer.placement)
        strategy.join(outer.environment)
        strategy.open()
        found[name] = trained(strategy, precision)
    return found


@pytest.fixture(scope="module")
def ways(ranks):
    return ranks(of_each_way, 2)[0]


@pytest.mark.parametrize("way", ["32", "bf16-mixed", "16-mixed", "bf16-mixed, a mesh"])
def test_no_rank_holds_a_whole_weight_or_gradient_between_forward_backward_and_the_next_micro_batch(ways, way):
    assert ways[way][0] == [(0, 0)] * 2


def test_what_is_asked_to_stay_whole_does(ways):
    (weights, gradients), _ = ways["bf16-mixed, reduced once"][0]
    assert weights == 0 < gradients
    assert ways["bf16-mixed, gathered once"][0][0][0] > 0
    assert ways["DDP"][0][0][0] > 0  # autocast's copies


@pytest.mark.parametrize("way", [name for name in WAYS if name.startswith("bf16")])
def test_mixed_precision_is_autocast_s_with_sharded_weights(ways, way):
    _, types, weights = ways[way]
    assert types == (torch.float32, torch.bfloat16)
    for name, value in ways["DDP"][2].items():
        torch.testing.assert_close(weights[name], value, rtol=1e-4, atol=1e-5, msg=name)
        assert weights[name].dtype == value.dtype


def is_split(tensor):
    return isinstance(tensor, DTensor)


class Hooked(Net):
    """A frozen row, a gradient that is scaled, and hooks that count: on weights, in a norm, on its own parameter."""

    def __init__(self):
        super().__init__()
        self.scale, self.seen = nn.Parameter(torch.ones(WIDTH)), []
        keep = torch.ones(3 * WIDTH, 1)
        keep[3] = 0
        self.blocks[1][0].weight.register_hook(lambda gradient: gradient * 0 if is_split(gradient) else gradient * keep)
        self.blocks[0][1].weight.register_hook(lambda gradient: gradient * 2)
        self.scale.register_hook(lambda gradient: gradient * 3)
        self.head.weight.register_post_accumulate_grad_hook(lambda param: self.seen.append(param.grad is not None))

    def training_step(self, batch):
        return super().training_step((batch[0] * self.scale, *batch[1:]))


HOOKED = {
    "DDP": DDP,
    "FSDP": FSDP,
    "a mesh": lambda: ModelParallel(mesh={"data_shard": 2}, auto_wrap_policy={nn.Sequential}),
    "split": lambda: ModelParallel(mesh={"tensor": 2}, parallelize={"blocks.*.0": "colwise_gather_output"}),
}


def of_hooks(outer):
    found = {}
    for name, make in HOOKED.items():
        strategy = make()
        strategy.place(outer.placement)
        strategy.join(outer.environment)
        strategy.open()
        module = Hooked()
        _, _, weights = trained(strategy, Precision(), module=module)
        found[name] = weights, len(module.seen), isinstance(module.blocks[0], FSDPModule)
    return found


def test_hooks_of_parameters_are_called_where_these_are_sharded_or_split(ranks):
    found = ranks(of_hooks, 2)[0]
    fresh = Hooked().blocks[1][0].weight
    for name, (weights, seen, _) in found.items():
        assert torch.equal(weights["blocks.1.0.weight"][3], fresh[3]), name
        assert torch.equal(weights["blocks.1.0.weight"][4], fresh[4]) == (name == "split"), name
        assert seen == 4, name
    assert [sharded for _, _, sharded in found.values()] == [False, True, True, False]
    for name in ("FSDP", "a mesh"):
        for key, value in found["DDP"][0].items():
            torch.testing.assert_close(found[name][0][key], value, rtol=1e-5, atol=1e-6, msg=f"{name}: {key}")


MIXED = {
    "split and whole": {"mesh": {"tensor": 2}, "parallelize": {"blocks.*.0": "colwise_gather_output"}},
    "sharded": {"mesh": {"data_shard": 2}, "auto_wrap_policy": {nn.Sequential}},
}
OPTIMIZERS = {
    "one by one": lambda params: torch.optim.AdamW(params, lr=0.01, foreach=False),
    "foreach": lambda params: torch.optim.AdamW(params, lr=0.01, foreach=True),
    "fused": lambda params: torch.optim.AdamW(params, lr=0.01, fused=True),
    "SGD, foreach": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, foreach=True),  # fused: not torch's
    "SGD": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
}


def of_optimizers(outer):
    found = {}
    for way, arguments in MIXED.items():
        for name, make in OPTIMIZERS.items():
            strategy = ModelParallel(**arguments)
            strategy.place(outer.placement)
            strategy.join(outer.environment)
            strategy.open()
            module = Net(nn.LayerNorm)
            module, (optimizer,) = strategy.setup(module, lambda m=module, f=make: [f(m.parameters())], Precision())
            step = strategy.bind(module, "training_step")
            for number in range(3):
                optimizer.zero_grad()
                strategy.backward(step(batch_of(number, strategy.data_shard.index)))
                strategy.optimizer_step(optimizer)
            found[way, name] = strategy.full_module_state(module), [len(g["params"]) for g in optimizer.param_groups]
        strategy = ModelParallel(**arguments)
        strategy.place(outer.placement)
        strategy.join(outer.environment)
        strategy.open()
        try:
            module = Net(nn.LayerNorm)
            strategy.setup(module, lambda m=module: [torch.optim.SGD(m.parameters(), lr=0.1)], ScaledMixed())
            found[way] = None
        except ConfigError as error:
            found[way] = str(error)
    return found


def test_optimizers_step_as_on_gpus_where_some_parameters_are_spread_and_some_are_not(ranks):
    found = ranks(of_optimizers, 2)[0]
    count = len(list(Net(nn.LayerNorm).parameters()))
    for way in MIXED:
        for name, same in [("foreach", "one by one"), ("fused", "one by one"), ("SGD, foreach", "SGD")]:
            (weights, groups), (expected, _) = found[way, name], found[way, same]
            assert groups == [count]  # the user's own
            for key, value in expected.items():
                torch.testing.assert_close(weights[key], value, rtol=1e-5, atol=1e-6, msg=f"{way}, {name}: {key}")
    assert found["sharded"] is None
    assert "Take precision='bf16-mixed'" in found["split and whole"]


def test_the_groups_are_the_user_s_again_after_a_step_that_ends_with_an_error(monkeypatch):
    kinds = iter([[[1], [2]], [[1], [2]], [[1], [2]], [[1], [2]]])
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))], lr=0.1)
    own, (one, two) = optimizer.param_groups, optimizer.param_groups[0]["params"]
    monkeypatch.setattr(lt_parallel.kinds, "by_kind", lambda params: [[one], [two]] if next(kinds) else [])
    step_by_kind(optimizer)
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
    optimizer.step()
    assert optimizer.param_groups is own
    step_by_kind(optimizer)  # of a second run: once is enough
    assert len(optimizer._optimizer_step_pre_hooks) == 1


def of_two_runs(outer):
    found = {}
    for name, first, second, policy, *evaluates in [
        ("same", Mixed(), Mixed(), None),
        ("mixed first", Mixed(), Precision(), None),
        ("other bits", Mixed(torch.float16), Mixed(), None),
        ("mixed second", Precision(), Mixed(), None),
        ("own policy", Mixed(), Precision(), MixedPrecisionPolicy()),
        ("evaluated the same", Mixed(), Mixed(), None, Mixed()),
        ("evaluated in 32 bits", Mixed(), Mixed(), None, Precision()),
        ("evaluated in others", Mixed(), Mixed(), None, Mixed(torch.float16)),
        ("evaluated in 16 bits", Precision(), Precision(), None, Mixed()),
        ("evaluated by own policy", Mixed(), Mixed(), MixedPrecisionPolicy(), Precision()),
    ]:
        module, trainer = Net(), SimpleNamespace(eval_precision_plugin=(evaluates or [first])[0])
        if evaluates:
            module._trainer = trainer
        try:
            for precision in (first, second):
                strategy = FSDP(mixed_precision=policy)
                strategy.place(outer.placement)
                strategy.join(outer.environment)
                strategy.open()
                trained(strategy, precision, module=module, steps=1)
            found[name] = None
        except ConfigError as error:
            found[name] = str(error)
    return found


def test_another_precision_is_refused_where_weights_are_gathered_in_that_of_the_first_run(ranks):
    found = ranks(of_two_runs, 2)[0]
    assert [name for name, error in found.items() if error] == [
        *("mixed first", "other bits", "evaluated in 32 bits", "evaluated in others")
    ]
    assert "LT767" in found["mixed first"]
    assert "gathered in torch.float16" in found["other bits"]
    assert "gathered in torch.bfloat16" in found["evaluated in 32 bits"]
