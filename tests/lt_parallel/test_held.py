"""What each rank holds whole of a sharded model between forward, backward and step; hooks of sharded parameters."""

import weakref
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from tests.versions import needs_pipelines
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

import lt_parallel.kinds
from lt_core.errors import ConfigError
from lt_core.precision import Precision
from lt_parallel import FSDP, ModelParallel, Pipelined, PipelineParallel
from lt_parallel.kinds import step_by_kind
from lt_strategies import DDP, Mixed, ScaledMixed, TruePrecision

pytestmark = pytest.mark.fsdp

WIDTH, ROWS = 24, 5


class Alive(TorchDispatchMode):
    """Notes the tensors that operations return and whether they still live; views of the module's own are none."""

    def __init__(self, module):
        super().__init__()
        self.made = []
        self.own = {p.untyped_storage().data_ptr() for p in module.parameters() if not isinstance(p, DTensor)}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.made += [weakref.ref(t) for t in (out if isinstance(out, (list, tuple)) else [out]) if torch.is_tensor(t)]
        return out

    def bytes(self, shapes):
        """Return the bytes of living tensors of these shapes, transposed ones too."""
        found = [t for ref in self.made if (t := ref()) is not None and not isinstance(t, DTensor)]
        whole = [t for t in found if tuple(t.shape) in shapes or tuple(t.shape[::-1]) in shapes]
        memory = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in whole}
        return sum(size for place, size in memory.items() if place not in self.own)


class Net(nn.Module):
    """Blocks with a norm that keeps statistics, timesteps as floats, and a loss with float targets."""

    given = torch.float32  # type of the batch

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
        assert times.dtype == wanted.dtype == x.dtype == self.given
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
    module.given = precision.convert_input(torch.ones(())).dtype
    shapes = {tuple(p.shape) for p in module.parameters() if p.dim() == 2}
    module, (optimizer,) = strategy.setup(
        module, lambda: [torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)], precision
    )
    step = precision.wrap_step(strategy.bind(module, "training_step"))
    held = []
    for number in range(steps):
        optimizer.zero_grad()
        for micro in range(window):
            with Alive(module) as alive, strategy.accumulating(module, micro + 1 == window):
                batch = batch_of(number * window + micro, strategy.data_shard.index)
                loss = step(tuple(map(precision.convert_input, batch)))
                after_forward = alive.bytes(shapes)
                strategy.backward(loss / window)
                held.append((after_forward, alive.bytes(shapes)))
        strategy.optimizer_step(optimizer)
    return held[-window:], (loss.dtype, module.scores), strategy.full_module_state(module)


WAYS = {
    "DDP": DDP,
    "FSDP": FSDP,
    "FSDP, gathered once": lambda: FSDP(sharding_strategy="SHARD_GRAD_OP"),
    "FSDP, reduced once": lambda: FSDP(sync_each_batch=False),
    "a mesh": lambda: ModelParallel(mesh={"data_shard": 2}, auto_wrap_policy={nn.Sequential}),
}
PRECISIONS = {
    "32": Precision,
    "bf16-mixed": Mixed,
    "16-mixed": lambda: Mixed(torch.float16),
    "bf16-true": lambda: TruePrecision("bf16-true"),
}


def placed(strategy, outer):
    strategy.place(outer.placement)
    strategy.join(outer.environment)
    strategy.open()
    return strategy


class ByHand(Net):
    """The same as a module of torch alone: its forward is the step."""

    def forward(self, batch):
        return self.training_step(batch)


def by_hand(way, precision, window, shard):
    """Return the bytes of whole weights and gradients in a loop with torch's own DDP and FSDP."""
    kind = PRECISIONS[precision]()
    module, narrow = ByHand(), kind.compute_dtype
    if precision == "bf16-true":
        module.to(torch.bfloat16).given = torch.bfloat16
    params, shapes = list(module.parameters()), {tuple(p.shape) for p in module.parameters() if p.dim() == 2}
    if way == "DDP":
        model = nn.parallel.DistributedDataParallel(module)
    else:
        model, rest = module, {"reshard_after_forward": way != "FSDP, gathered once"}
        types = MixedPrecisionPolicy(narrow, None if narrow is None else torch.float32, cast_forward_inputs=False)
        for part in module.blocks:
            fully_shard([part[1]], mp_policy=MixedPrecisionPolicy(cast_forward_inputs=False), **rest)
            fully_shard(part, mp_policy=types, **rest)
        fully_shard(module, mp_policy=types, **rest)
    for _ in range(2):
        held = []
        for param in (*params, *module.parameters()):
            param.grad = None
        for micro in range(window):
            last = micro + 1 == window
            if way == "FSDP, reduced once":
                model.set_requires_gradient_sync(last)
            with Alive(module) as alive, model.no_sync() if way == "DDP" and not last else nullcontext():
                with torch.autocast("cpu", narrow, enabled=narrow is not None):
                    loss = model([t.to(module.given) for t in batch_of(micro, shard)])
                after_forward = alive.bytes(shapes)
                (loss / window).backward()
                held.append((after_forward, alive.bytes(shapes)))
    return held


def of_each_way(outer):
    found = {}
    for way, make in WAYS.items():
        for precision, kind in PRECISIONS.items():
            strategy = placed(make(), outer)
            held, types, weights = trained(strategy, kind())
            single = trained(placed(make(), outer), kind(), window=1)[0]
            hand = [by_hand(way, precision, window, strategy.data_shard.index) for window in (2, 1)]
            found[way, precision] = (held, single), types, weights, hand
    return found


@pytest.fixture(scope="module")
def ways(ranks):
    return ranks(of_each_way, 2)[0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_rank_holds_what_torch_s_own_loop_holds_at_the_end_of_forward_and_backward(ways, way, precision):
    held, _, _, hand = ways[way, precision]
    print(f"{way}, {precision}, at the ends of forward and backward: of two batches {held[0]}, of one {held[1]}")
    assert [*held] == hand


@pytest.mark.parametrize("way", ["FSDP", "a mesh"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_no_rank_holds_a_whole_weight_or_gradient_between_forward_backward_and_the_next_micro_batch(
    ways, way, precision
):
    assert ways[way, precision][0] == ([(0, 0)] * 2, [(0, 0)])


def test_what_is_asked_to_stay_whole_does(ways):
    (weights, gradients), _ = ways["FSDP, reduced once", "bf16-mixed"][0][0]
    assert weights == 0 < gradients
    assert ways["FSDP, gathered once", "bf16-mixed"][0][0][0][0] > 0
    assert ways["DDP", "bf16-mixed"][0][0][0][0] > 0  # autocast's copies


@pytest.mark.parametrize("way", WAYS)
def test_mixed_precision_is_autocast_s_with_sharded_weights(ways, way):
    _, types, weights, _ = ways[way, "bf16-mixed"]
    assert types == (torch.float32, torch.bfloat16)
    for name, value in ways["DDP", "bf16-mixed"][2].items():
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


STRATEGIES = {
    "DDP": DDP,
    "FSDP": FSDP,
    "split and whole": lambda: ModelParallel(mesh={"tensor": 2}, parallelize={"blocks.*.0": "colwise_gather_output"}),
    "a mesh": lambda: ModelParallel(mesh={"data_shard": 2}, auto_wrap_policy={nn.Sequential}),
}
OPTIMIZERS = {  # the first of each two is a CPU's default, the others a GPU's and what users take there
    "one by one": lambda params: torch.optim.AdamW(params, lr=0.01, foreach=False),
    "foreach": lambda params: torch.optim.AdamW(params, lr=0.01, foreach=True),
    "fused": lambda params: torch.optim.AdamW(params, lr=0.01, fused=True),
    "SGD": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "SGD, foreach": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, foreach=True),
    "SGD, fused": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, fused=True),
}
SAME = {name: "SGD" if name.startswith("SGD") else "one by one" for name in OPTIMIZERS}
SCALES = {"32": Precision, "16-mixed": lambda: ScaledMixed(GradScaler("cpu", init_scale=256.0))}


def stepped(strategy, make, precision):
    """Train with clipped gradients, of which one on rank 0 is infinite under a scaler; return weights and groups."""
    module = Net(nn.LayerNorm)
    module, (optimizer,) = strategy.setup(module, lambda: [make(module.parameters())], precision)
    step = precision.wrap_step(strategy.bind(module, "training_step"))

    def take_step():
        strategy.optimizer_step(optimizer)
        return True

    for number in range(4):
        x, *rest = batch_of(number, strategy.data_shard.index)
        if precision.scales and number == 1 and strategy.rank == 0:
            x[0, 0] = float("inf")
        optimizer.zero_grad()
        strategy.backward(precision.scale_loss(step((x, *rest))))
        precision.unscale(optimizer)
        strategy.clip_gradients(module.parameters(), 0.1)
        precision.step(optimizer, take_step)
    return strategy.full_module_state(module), [len(group["params"]) for group in optimizer.param_groups]


def of_optimizers(outer):
    found = {}
    for way, strategy in STRATEGIES.items():
        for scale, precision in SCALES.items():
            for name, make in OPTIMIZERS.items():
                if name == "SGD, fused" and way != "DDP":
                    continue  # not torch's, of DTensors
                try:
                    found[way, scale, name] = stepped(placed(strategy(), outer), make, precision())
                except ConfigError as error:
                    found[way, scale, name] = str(error)
    return found


@pytest.fixture(scope="module")
def of_gpus(ranks):
    return ranks(of_optimizers, 2)[0]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("way", STRATEGIES)
def test_optimizers_step_on_ranks_by_a_gpu_s_defaults_as_one_by_one(of_gpus, way, scale):
    count = len(list(Net(nn.LayerNorm).parameters()))
    tried = [name for name in OPTIMIZERS if (way, scale, name) in of_gpus]
    assert len(tried) >= 5
    for name in tried:
        if (way, scale) == ("split and whole", "16-mixed"):
            assert "Take precision='bf16-mixed'" in of_gpus[way, scale, name]
            continue
        weights, groups = of_gpus[way, scale, name]
        assert groups == [count]  # the user's own
        for key, value in of_gpus[way, scale, SAME[name]][0].items():
            assert torch.isfinite(value).all()
            torch.testing.assert_close(weights[key], value, rtol=1e-5, atol=1e-6, msg=f"{name}: {key}")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_sharded_and_whole_weights_are_the_same_by_a_gpu_s_defaults(of_gpus, name):
    expected = of_gpus["DDP", "32", name][0]
    for way in ("FSDP", "a mesh"):
        for key, value in expected.items() if (way, "32", name) in of_gpus else ():
            torch.testing.assert_close(
                of_gpus[way, "32", name][0][key], value, rtol=1e-4, atol=1e-5, msg=f"{way}: {key}"
            )


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


class Staged(nn.Module):
    """Layers of a pipeline, each sharded over the ranks of its stage."""

    given = torch.float32

    def __init__(self):
        super().__init__()
        self.net = Pipelined([block for _ in range(2) for block in Net(nn.LayerNorm).blocks], nn.functional.mse_loss)

    @property
    def scores(self):
        return None

    def training_step(self, batch):
        return self.net(batch[0], batch[0].flip(1))


def of_stages(outer):
    found = {}
    for name, kind in PRECISIONS.items():
        if name != "16-mixed":  # refused
            mesh = {"pipeline": 2, "data_shard": 2}
            strategy = placed(PipelineParallel(mesh=mesh, micro_batches=ROWS), outer)
            held, (loss, _), weights = trained(strategy, kind(), module=Staged())
            found[name] = held, loss, weights
    return found


@needs_pipelines
def test_a_rank_of_a_pipeline_holds_whole_gradients_of_its_stage_until_backward_and_no_weights(ranks):
    everyone = ranks(of_stages, 4)
    whole = sum(p.nbytes for p in Net(nn.LayerNorm).blocks.parameters() if p.dim() == 2)
    for name, near in (("32", 1e-6), ("bf16-mixed", 1e-3), ("bf16-true", 2e-2)):
        _, loss, weights = everyone[0][name]
        true = name == "bf16-true"
        assert [rank[name][0] for rank in everyone] == [[(whole // 2 if true else whole, 0)] * 2] * 4
        assert loss == torch.float32
        kind = PRECISIONS[name]()
        alone = kind.convert_module(Staged())
        optimizer = torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9)
        step = kind.wrap_step(alone.training_step)
        for number in range(4):
            rows = torch.cat([batch_of(number, part)[0] for part in range(2)])
            (step([kind.convert_input(rows)]) / 2).backward()
            if number % 2:
                optimizer.step()
                optimizer.zero_grad()
        for key, value in alone.state_dict().items():
            torch.testing.assert_close(weights[key], value, rtol=near, atol=near, msg=f"{name}, {key}")
    mixed, full = (everyone[0][name][2]["net.layers.0.0.weight"] for name in ("bf16-mixed", "32"))
    assert not torch.equal(mixed, full)
