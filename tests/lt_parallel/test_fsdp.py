"""What FSDP adds to the conformance kit: sharding itself, meta device, meshes."""

import copy
import gc
import weakref

import pytest
import torch
from tests.patience import PATIENCE
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from lt_core.errors import ConfigError
from lt_core.precision import Precision
from lt_core.strategy import Placement
from lt_parallel import FSDP, ModelParallel
from lt_strategies import DDP

pytestmark = pytest.mark.fsdp


class Blocks(nn.Module):
    """A few equal blocks in a list, a head, and a step."""

    def __init__(self, seed=0):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3))
            self.head = nn.Linear(8, 2)

    def training_step(self, batch):
        for block in self.blocks:
            batch = block(batch)
        return self.head(batch).pow(2).mean()


def batch_of(index, rank):
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * index + rank))


def train(strategy, module, steps=3, start=0, window=1, prepare=None):
    module, (optimizer,) = strategy.setup(
        module, lambda: [torch.optim.AdamW(module.parameters(), lr=0.01)], Precision()
    )
    if prepare is not None:
        prepare(module, optimizer)
    step = strategy.bind(module, "training_step")
    shard = strategy.data_shard.index
    for number in range(start, start + steps):
        optimizer.zero_grad()
        for micro in range(window):
            with strategy.accumulating(module, micro + 1 == window):
                strategy.backward(step(batch_of(number * window + micro, shard)) / window)
        strategy.clip_gradients(list(module.parameters()), 0.1)
        strategy.optimizer_step(optimizer)
    return module, optimizer


def weights(strategy, module):
    return copy.deepcopy(strategy.full_module_state(module))


def assert_same(mine, theirs, tolerance=1e-6):
    for name, value in theirs.items():
        torch.testing.assert_close(mine[name], value, rtol=1e-5, atol=tolerance, msg=name)


def facts_of_ddp(strategy):
    module, _ = train(strategy, Blocks(), window=2)
    return weights(strategy, module)


def facts_of_fsdp(strategy):
    module, optimizer = train(strategy, Blocks(), window=2)
    blocks = [isinstance(block, FSDPModule) for block in module.blocks]
    local = sum(p.to_local().numel() for p in module.parameters() if isinstance(p, DTensor))
    moments = [v for entry in optimizer.state.values() for v in entry.values() if isinstance(v, DTensor)]
    found = {"weights": weights(strategy, module), "blocks": blocks, "local": local, "moments": len(moments)}
    again, _ = train(strategy, module, steps=1, start=3, window=2)
    found["same module"] = again is module
    return found


def of_several_ways(strategies):
    def facts(outer):
        found = []
        for make in strategies:
            strategy = make()
            strategy.place(outer.placement)
            strategy.join(outer.environment)
            strategy.open()
            module, _ = train(strategy, Blocks(), window=2)
            found.append(weights(strategy, module))
        return found

    return facts


@pytest.fixture(scope="module")
def ddp(ranks):
    return ranks(facts_of_ddp, 2)[0]


@pytest.fixture(scope="module")
def fsdp(ranks):
    return ranks(facts_of_fsdp, 2, FSDP(timeout=PATIENCE))


def test_fsdp_equals_ddp(ddp, fsdp):
    for rank in fsdp:
        assert_same(rank["weights"], ddp)


def test_the_items_of_a_module_list_are_groups_by_default(fsdp):
    assert fsdp[0]["blocks"] == [True, True, True]


def test_each_rank_holds_its_part_of_parameters_and_of_the_optimizer_s_state(fsdp):
    total = sum(p.numel() for p in Blocks().parameters())
    assert [rank["local"] for rank in fsdp] == [total // 2, total // 2]
    assert fsdp[0]["moments"] == 2 * len(list(Blocks().parameters()))


def test_a_sharded_module_is_trained_on_in_another_run(fsdp):
    assert fsdp[0]["same module"]


def test_every_way_of_sharding_gives_the_same_numbers(ranks, ddp):
    ways = [
        lambda: FSDP(sharding_strategy="SHARD_GRAD_OP", auto_wrap_policy={nn.Linear}),
        lambda: FSDP(auto_wrap_policy=lambda part: isinstance(part, nn.Sequential)),
        lambda: FSDP(activation_checkpointing_policy={nn.Sequential}),
        lambda: FSDP(device_mesh=(2, 1)),
        lambda: FSDP(cpu_offload=True),
        lambda: FSDP(mixed_precision=MixedPrecisionPolicy(reduce_dtype=torch.float32)),
    ]
    for found in ranks(of_several_ways(ways), 2, FSDP(timeout=PATIENCE))[0]:
        assert list(found) == list(ddp)
        assert_same(found, ddp)


def facts_of_meta(strategy):
    with strategy.init_context():
        module = Between()
    before = all(p.is_meta for p in module.parameters())
    torch.manual_seed(3)
    ready, _ = strategy.setup(module, None, Precision())
    state = weights(strategy, ready)
    with strategy.init_context():
        bare = nn.Sequential(nn.Linear(2, 2), nn.ModuleList([nn.Sequential(Bare())]))
    try:
        strategy.setup(bare, None, Precision())
    except ConfigError as error:
        return before, state, str(error)


class Between(Blocks):
    """Has a layer of the root's own before the blocks too."""

    def __init__(self):
        nn.Module.__init__(self)
        self.first = nn.Linear(8, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3))
        self.head = nn.Linear(8, 2)


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))


def test_a_module_made_on_the_meta_device_gets_the_first_values_that_one_process_gives_it(ranks):
    (before, first, message), (_, second, _) = ranks(facts_of_meta, 2, FSDP(timeout=PATIENCE))
    assert before
    assert_same(first, second, 0.0)
    torch.manual_seed(3)
    assert_same(first, Between().state_dict(), 0.0)
    assert "1.0.0 (Bare) was made on the meta device, where tensors have no values, and has no reset_p" in message


def facts_of_own_calls(strategy):
    """A module that shards itself, as ``configure_model`` does."""
    module = Blocks()
    for block in module.blocks:
        fully_shard(block, mesh=strategy.device_mesh)
    ready, _ = train(strategy, module, window=2)
    return weights(strategy, ready), isinstance(ready.head.weight, DTensor)


def test_what_the_user_sharded_is_left_alone_and_the_rest_is_averaged(ranks, ddp):
    found, head_is_sharded = ranks(facts_of_own_calls, 2, FSDP(timeout=PATIENCE))[1]
    assert not head_is_sharded
    assert_same(found, ddp)


def facts_of_tensor_parallel(strategy):
    mesh = strategy.device_mesh
    module = Blocks()
    plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
    pair = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 2))
    with torch.no_grad():
        for number, param in enumerate(pair.parameters()):
            param.copy_(torch.linspace(-1, 1, param.numel()).view_as(param) / (number + 1))
    module.head = parallelize_module(pair, mesh["tensor_parallel"], plan)
    shard = tuple(strategy.data_shard)
    ready, _ = train(strategy, module, window=2)
    plain = Blocks()
    plain.head = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 2))
    with torch.no_grad():
        for number, param in enumerate(plain.head.parameters()):
            param.copy_(torch.linspace(-1, 1, param.numel()).view_as(param) / (number + 1))
    optimizer = torch.optim.AdamW(plain.parameters(), lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        for micro in range(2):
            (plain.training_step(batch_of(2 * step + micro, 0)) / 2).backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 0.1)
        optimizer.step()
    return shard, weights(strategy, ready), plain.state_dict()


def test_tensor_parallel_by_the_mesh_equals_plain_torch(ranks):
    for shard, found, plain in ranks(facts_of_tensor_parallel, 2, ModelParallel(timeout=PATIENCE)):
        assert shard == (0, 1)
        assert_same(found, plain, 1e-5)


class Pair(nn.Module):
    """A plain layer, and two that are spread over the ranks by ``spread``; other values on each rank."""

    def __init__(self, spread=None, mesh=None, seed=0):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.plain, self.pair = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 2))
        if spread is not None:
            spread(self, mesh)

    def training_step(self, batch):
        return self.pair(self.plain(batch).tanh()).pow(2).mean()


def by_tensor(module, mesh):
    plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
    parallelize_module(module.pair, mesh["tensor_parallel"], plan)


def by_tensor_and_data(module, mesh):
    by_tensor(module, mesh)
    fully_shard(module, mesh=mesh["data_parallel"])


def by_both_in_parts(module, mesh):
    by_tensor(module, mesh)
    fully_shard(module.plain, mesh=mesh["data_parallel"])


def within_copies(module, mesh):
    fully_shard(module.pair, mesh=mesh["shard"])


def facts_of_copies(strategies):
    """Train with each strategy and way of spreading; weights, then what one process makes of the first values."""

    def facts(outer):
        found = []
        for make, spread in strategies:
            strategy = make()
            strategy.place(outer.placement)
            strategy.join(outer.environment)
            strategy.open()
            module, seen = Pair(spread, strategy.device_mesh, strategy.rank), {}
            module, _ = train(
                strategy, module, window=2, prepare=lambda m, _, s=strategy, seen=seen: seen.update(weights(s, m))
            )
            shards = strategy.data_shard.count
            found.append((weights(strategy, module), one_process(seen, shards)))
        return found

    return facts


def one_process(first, shards):
    module = Pair()
    module.load_state_dict(first)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        for micro in range(2):
            batch = torch.cat([batch_of(2 * step + micro, shard) for shard in range(shards)])
            (module.training_step(batch) / 2).backward()
        nn.utils.clip_grad_norm_(module.parameters(), 0.1)
        optimizer.step()
    return module.state_dict()


def test_copies_of_a_shard_begin_and_stay_equal_and_train_as_one_process(ranks):
    ways = [
        (lambda: ModelParallel(2, 2), by_tensor),
        (lambda: ModelParallel(2, 2), by_tensor_and_data),
        (lambda: ModelParallel(2, 2), by_both_in_parts),
        (lambda: FSDP(device_mesh=(2, 2)), within_copies),
    ]
    everyone = ranks(facts_of_copies(ways), 4)
    for number, (_, spread) in enumerate(ways):
        for rank in everyone:
            found, alone = rank[number]
            assert_same(found, alone)
            for name, value in found.items():
                assert torch.equal(value, everyone[0][number][0][name]), (spread.__name__, name)


class ShardsItself(Blocks):
    def validation_step(self, batch, batch_idx):
        return self.training_step(batch)


def facts_of_a_module_that_is_sharded_itself(strategy):
    module = ShardsItself()
    fully_shard(module.blocks[0], mesh=strategy.device_mesh)
    fully_shard(module, mesh=strategy.device_mesh)
    ready, optimizer = train(strategy, module, steps=2, window=2)
    for _ in range(2):
        with torch.no_grad():
            strategy.bind(ready, "validation_step")(batch_of(0, 0), 0)
    ready, _ = train(strategy, ready, steps=0)
    for number in range(2, 3):
        optimizer.zero_grad()
        for micro in range(2):
            with strategy.accumulating(ready, micro == 1):
                strategy.backward(
                    strategy.bind(ready, "training_step")(batch_of(number * 2 + micro, strategy.rank)) / 2
                )
        strategy.clip_gradients(list(ready.parameters()), 0.1)
        strategy.optimizer_step(optimizer)
    return weights(strategy, ready), [name for name in vars(ready) if name.endswith("_step")]


def test_a_module_that_is_sharded_itself_keeps_its_methods_and_trains_on(ranks, ddp):
    for found, patched in ranks(facts_of_a_module_that_is_sharded_itself, 2, FSDP()):
        assert patched == []
        assert_same(found, ddp)


def test_a_sharded_module_goes_when_nobody_needs_it(ranks):
    def facts(
        strategy,
    ):  # on a rank of its own: a process in which FSDP ran a backward cannot be forked for other tests
        module = Blocks()
        strategy.setup(module, None, Precision())
        strategy.bind(module, "training_step")(batch_of(0, 0)).backward()
        kept = weakref.ref(module)
        del module
        gc.collect()
        return kept() is None

    assert ranks(facts, 2, FSDP()) == [True, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sharding_strategy": "FULL_SHART"}, "Did you mean 'FULL_SHARD'"),
        ({"state_dict_type": "ful"}, "Did you mean 'full'"),
    ],
)
def test_an_unknown_choice_is_refused_with_a_guess(arguments, message):
    with pytest.raises(ConfigError, match=message):
        FSDP(**arguments)


def test_a_mesh_of_another_size_than_the_job_is_refused(ranks):
    def facts(strategy):
        with pytest.raises(ConfigError, match=r"holds 4 ranks, but the job has 1"):
            _ = strategy.device_mesh

    ranks(facts, 1, FSDP(device_mesh=(2, 2)))


def test_ddp_refuses_a_module_that_fsdp_has_sharded(ranks):
    def facts(strategy):
        module, _ = strategy.setup(Blocks(), None, Precision())
        with pytest.raises(ConfigError, match=r"needs whole parameters.*earlier run with FSDP"):
            DDP().setup(module, None, Precision())

    ranks(facts, 1, FSDP())


def test_model_parallel_without_a_sharded_module_says_what_to_call(ranks):
    def facts(strategy):
        with pytest.raises(ConfigError, match="Call parallelize_module or fully_shard in configure_model"):
            strategy.setup(Blocks(), None, Precision())

    ranks(facts, 1, ModelParallel())


def test_sync_batchnorm_on_the_cpu_says_that_it_needs_cuda():
    strategy = FSDP()
    strategy.place(Placement(devices=(0, 1), sync_batchnorm=True))
    with pytest.raises(ConfigError, match="SyncBatchNorm works on CUDA"):
        strategy.setup(nn.BatchNorm1d(2), None, Precision())
