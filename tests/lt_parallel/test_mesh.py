"""Meshes of several named dimensions, and plans for transformer blocks: as one process trains."""

import copy

import pytest
import torch
from tests.patience import PATIENCE
from tests.versions import PIPELINES
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.torch_version import TorchVersion

from lt_core.errors import ConfigError
from lt_core.precision import Precision
from lt_parallel import FSDP, ModelParallel, Pipelined, PipelineParallel
from lt_parallel.mesh import check_order, part_of_data, resolved
from lt_parallel.states import check_gathers

pytestmark = [
    pytest.mark.fsdp,
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),  # torch.compile reads it
    pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view tensor"),  # of which none is changed
]

WIDTH, WORDS = 16, 12  # eight heads


class Attention(nn.Module):
    mask = None  # causal

    def forward(self, queries, keys, values):
        causal = self.mask is None
        return nn.functional.scaled_dot_product_attention(queries, keys, values, self.mask, is_causal=causal)


class Block(nn.Module):
    def __init__(self, noise=0.0):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention()
        # a bias of keys has a gradient of zero but for rounding, which Adam makes steps of
        self.queries, self.keys, self.values, self.out = (nn.Linear(WIDTH, WIDTH, bias=i != 1) for i in range(4))
        self.noise = nn.Dropout(noise)

    def forward(self, x):
        y = self.norm(x)
        parts = (layer(y).unflatten(2, (-1, 2)).transpose(1, 2) for layer in (self.queries, self.keys, self.values))
        return x + self.noise(self.out(self.attention(*parts).transpose(1, 2).flatten(2)))


class Words(nn.Module):
    def __init__(self, noise=0.0, seed=0):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.words = nn.Embedding(WORDS, WIDTH)
            self.blocks = nn.ModuleList(Block(noise) for _ in range(2))
            self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, rows):
        x = self.words(rows)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def loss(self, words, wanted):
        return nn.functional.cross_entropy(self(words).flatten(0, 1), wanted.flatten())

    def training_step(self, rows):
        return self.loss(rows[:, :-1], rows[:, 1:])


class OnContext:
    """Each rank of ``context`` holds a part of each sequence; queries meet the keys of all by torch's own plan."""

    mesh = None

    def on_mesh(self, mesh):
        if hasattr(super(), "on_mesh"):
            super().on_mesh(mesh)
        from torch.distributed.tensor.experimental import _context_parallel as context

        self.mesh = mesh["context"]
        kind = context._ContextParallel.AttentionType.SDPA
        context._enable_context_parallel_dispatcher()
        for block in (part for part in self.modules() if isinstance(part, Block)):
            block.attention.mask = distribute_tensor(torch.ones(8, 8).tril().bool(), self.mesh, [Shard(0)])
            parallelize_module(block.attention, self.mesh, context._ContextParallel(seq_dim=2, attention_type=kind))

    def training_step(self, rows):
        if self.mesh is None:
            return super().training_step(rows)
        words, wanted = (
            part.chunk(self.mesh.size(), 1)[self.mesh.get_local_rank()] for part in (rows[:, :-1], rows[:, 1:])
        )
        with sdpa_kernel(SDPBackend.MATH):
            return self.loss(words, wanted)


class Context(OnContext, Words):
    pass


class Experts(nn.Module):
    """Eight layers, of which each word goes through the one that is chosen for it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, WIDTH, WIDTH) / WIDTH)
        self.first = 0

    def forward(self, x, choice):
        out = torch.zeros_like(x)
        weight = self.weight.to_local() if isinstance(self.weight, DTensor) else self.weight
        for number, layer in enumerate(weight, self.first):
            out = out + (choice == number).unsqueeze(-1) * (x @ layer)
        return out


class ByExpert(ParallelStyle):
    """Each rank holds some of the experts, for all words of the ranks of its dimension.

    Args:
        words: how these ranks hold the words: all the same, or each its own.
    """

    def __init__(self, words):
        super().__init__()
        self.words = words

    def _apply(self, module, mesh):
        def split(_, part, mesh):
            part.first = len(part.weight) // mesh.size() * mesh.get_local_rank()
            part.register_parameter("weight", nn.Parameter(distribute_tensor(part.weight, mesh, [Shard(0)])))

        def gathered(part, inputs, mesh):
            whole = (
                DTensor.from_local(given, mesh, [self.words]).redistribute(placements=[Replicate()]) for given in inputs
            )
            return tuple(self.scaled(given.to_local(grad_placements=[Partial()]), mesh.size()) for given in whole)

        def handed_back(part, out, mesh):
            out = DTensor.from_local(self.scaled(out, 1 / mesh.size()), mesh, [Partial()])
            return out.redistribute(placements=[self.words]).to_local()

        return distribute_module(module, mesh, split, gathered, handed_back)

    def scaled(self, x, factor):
        """Scale the gradient of ``x``, not ``x``: with words of its own each rank's loss is a mean over these only."""
        if self.words.is_replicate() or not x.is_floating_point():
            return x
        return x * factor + (x * (1 - factor)).detach()


class Chosen(nn.Module):
    """Adds what the expert that each word chooses makes of it."""

    def __init__(self):
        super().__init__()
        self.choose, self.experts = nn.Linear(WIDTH, 8), Experts()

    def forward(self, x):
        weights, choice = self.choose(x).softmax(-1).max(-1)
        return x + weights.unsqueeze(-1) * self.experts(x, choice)


class OnExperts:
    """Its experts are spread over the dimension ``expert`` or ``data_expert``."""

    def on_mesh(self, mesh):
        name = next(name for name in mesh.mesh_dim_names if name.endswith("expert"))
        style = ByExpert(Shard(0) if name.startswith("data") else Replicate())
        for part in self.modules():
            if isinstance(part, Experts):
                parallelize_module(part, mesh[name], style)


class Choosing(OnExperts, Words):
    """Blocks, and experts after them."""

    def __init__(self, seed=0):
        super().__init__(seed=seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.chosen = Chosen()

    def forward(self, rows):
        x = self.words(rows)
        for block in self.blocks:
            x = block(x)
        return self.head(self.chosen(x))


class ChoosingByHand(Choosing):
    """The same, sharded by itself."""

    def on_mesh(self, mesh):
        super().on_mesh(mesh)
        for part in (*self.blocks, self) if "data_shard" in mesh.mesh_dim_names else ():
            fully_shard(part, mesh=mesh["data_shard"])


class ChoosingContext(OnContext, Choosing):
    pass


class Line(nn.Module):
    """The same layers as a pipeline."""

    def __init__(self, seed=0, between=Block):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            blocks = [Block() for _ in range(5)]
            layers = [nn.Embedding(WORDS, WIDTH), *blocks, between(), nn.Linear(WIDTH, WORDS)]
        self.net = Pipelined(
            layers, lambda scores, words: nn.functional.cross_entropy(scores.flatten(0, 1), words.flatten())
        )

    def training_step(self, rows):
        return self.loss(rows[:, :-1], rows[:, 1:])

    def loss(self, words, wanted):
        return self.net(words, wanted)


class ContextLine(OnContext, Line):
    pass


class ChoosingLine(OnExperts, Line):
    def __init__(self, seed=0):
        super().__init__(seed, Chosen)


class ChoosingContextLine(OnContext, ChoosingLine):
    pass


PLAN = {
    "blocks.*.queries": ColwiseParallel(),
    "blocks.*.keys": ColwiseParallel(),
    "blocks.*.values": ColwiseParallel(),
    "blocks.*.out": "rowwise",
    "head": "colwise_gather_output",
}


def rows_of(index, part):
    return torch.randint(WORDS, (2, 9), generator=torch.Generator().manual_seed(100 * index + part))


def optimizers_of(module):
    """AdamW hides a gradient that is wrong by a factor; SGD does not."""
    return [torch.optim.AdamW(module.parameters(), lr=0.01, eps=1e-4), torch.optim.SGD(module.parameters(), lr=0.1)]


def train(strategy, module, steps=4):
    module, optimizers = strategy.setup(module, lambda: optimizers_of(module), Precision())
    first = copy.deepcopy(strategy.full_module_state(module))
    step = strategy.bind(module, "training_step")
    for number in range(steps):
        optimizer = optimizers[number * 2 // steps]
        optimizer.zero_grad()
        strategy.backward(step(rows_of(number, strategy.data_shard.index)))
        strategy.clip_gradients(list(module.parameters()), 0.5)
        strategy.optimizer_step(optimizer)
    return first, copy.deepcopy(strategy.full_module_state(module)), module


def one_process(module, first, parts, steps=4):
    module.load_state_dict(first)
    optimizers = optimizers_of(module)
    for number in range(steps):
        optimizer = optimizers[number * 2 // steps]
        optimizer.zero_grad()
        module.training_step(torch.cat([rows_of(number, part) for part in range(parts)])).backward()
        nn.utils.clip_grad_norm_(module.parameters(), 0.5)
        optimizer.step()
    return module.state_dict()


def trained(ways, make=Words):
    """Train in each way, of its own module where it is a pair; weights of the ranks and of one process, and the
    module's local share of its parameters."""

    def facts(outer):
        found = []
        for way in ways:
            way, kind = way if isinstance(way, tuple) else (way, make)
            strategy = way()
            strategy.place(outer.placement)
            strategy.join(outer.environment)
            strategy.open()
            module = kind(seed=strategy.rank)
            if hasattr(module, "on_mesh"):
                module.on_mesh(strategy.device_mesh)
            first, last, module = train(strategy, module)
            alone = one_process(kind(), first, strategy.data_shard.count)
            local = sum(p.to_local().numel() if isinstance(p, DTensor) else p.numel() for p in module.parameters())
            found.append((last, alone, local))
        return found

    return facts


def assert_as_one_process(everyone, number):
    for rank in everyone:
        mine, alone, _ = rank[number]
        assert list(mine) == list(alone)
        for name, value in alone.items():
            torch.testing.assert_close(mine[name], value, rtol=1e-5, atol=1e-6, msg=name)


def planned(mesh, **more):
    return lambda: ModelParallel(mesh=mesh, timeout=PATIENCE, **{"parallelize": PLAN, **more})


def of_context(mesh, **more):
    return planned(mesh, **{"parallelize": None, "auto_wrap_policy": {Block}, **more}), Context


def of_experts(mesh, kind=Choosing, **more):
    return planned(mesh, **{"parallelize": None, **more}), kind


def sharded(mesh, **more):
    return planned(mesh, parallelize=None, auto_wrap_policy={Block}, **more)


def of_line(mesh, kind=Line, **more):
    plan = {f"net.layers.{name}": style for name, style in LINE_PLAN.items()} if "tensor" in mesh else None
    return (lambda: PipelineParallel(mesh=mesh, parallelize=plan, timeout=PATIENCE, **more)), kind


LINE_PLAN = {
    "*.queries": "colwise", "*.keys": "colwise", "*.values": "colwise", "*.out": "rowwise", "7": "colwise_gather_output"
}  # fmt: skip
RECOMPUTED = {
    "reshard_after_forward": True, "activation_checkpointing_policy": {Block}, "compile_blocks": {"backend": "eager"}
}  # fmt: skip
CONTEXT = torch.__version__ >= "2.10"  # 2.9 has no context parallel as a style
WAYS_2 = [
    planned({"tensor": 2}),
    planned({"tensor": 2}, loss_parallel=True),
    planned({"data_replicate": 2, "tensor": 1}),
    sharded({"data_shard": "auto"}),
    of_experts({"expert": 2}),
    of_experts({"data_expert": 2}),
    *([of_context({"context": 2})] if CONTEXT else []),
]
WAYS_4 = [
    planned({"data_shard": 2, "tensor": 2}),
    planned({"data_replicate": "auto", "tensor": 2}),
    sharded({"data_replicate": 2, "data_shard": 2}),
    planned({"data_shard": 2, "tensor": 2}, activation_checkpointing_policy={Block}),
    planned({"data_shard": 2, "tensor": 2}, compile_blocks={"backend": "eager"}, loss_parallel=True),
    sharded({"data": 4}, prefetch=1, reshard_after_forward=2),
    planned({"tensor": 4}),
    planned({"tensor": 4}, loss_parallel=True),
    sharded({"data_replicate": 4}),
    of_experts({"expert": 4}),
    of_experts({"data_expert": 4}),
    of_experts({"data_replicate": 2, "expert": 2}),
    of_experts({"data_shard": 2, "expert": 2}, ChoosingByHand),
    of_experts({"data_shard": 2, "expert": 2}, auto_wrap_policy={Block}),
    of_experts({"data_shard": 2, "data_expert": 2}, ChoosingByHand),
    of_experts({"data_shard": 2, "data_expert": 2}, auto_wrap_policy={Block}),
    of_experts({"data_replicate": 2, "data_expert": 2}),
    of_experts({"data_expert": 2, "tensor": 2}, parallelize=PLAN),
    of_experts({"expert": 2, "tensor": 2}, parallelize=PLAN),
    *([of_experts({"expert": 2, "context": 2}, ChoosingContext)] if CONTEXT else []),
    *([of_experts({"data_expert": 2, "context": 2}, ChoosingContext)] if CONTEXT else []),
    *([of_context({"context": 4})] if CONTEXT else []),
    *([of_context({"data_replicate": 2, "context": 2})] if CONTEXT else []),
    *([of_context({"data_shard": 2, "context": 2})] if CONTEXT else []),
    *([of_context({"context": 2, "tensor": 2}, parallelize=PLAN)] if CONTEXT else []),
    *([of_line({"pipeline": 2, "tensor": 2})] if PIPELINES else []),
    *([of_line({"tensor": 2, "pipeline": 2}, micro_batches=1)] if PIPELINES else []),
    *([of_line({"data_shard": 2, "pipeline": 2})] if PIPELINES else []),
    *([of_line({"pipeline": 2, "data_shard": 2}, **RECOMPUTED)] if PIPELINES else []),
    *([of_line({"pipeline": 2, "context": 2}, ContextLine)] if PIPELINES else []),
    *([of_line({"pipeline": 2, "expert": 2}, ChoosingLine)] if PIPELINES else []),
    *([of_line({"pipeline": 2, "data_expert": 2}, ChoosingLine)] if PIPELINES else []),
]
WAYS_8 = [
    planned({"data_replicate": 2, "data_shard": 2, "tensor": 2}),
    *([planned({"data_shard": 4, "tensor": 2})] if torch.__version__ >= "2.10" else []),  # see the next test
    sharded({"data_replicate": 2, "data_shard": 4}),
    sharded({"data_replicate": 8}),
    sharded({"data_shard": 8}),
    planned({"tensor": 8}),
    of_experts({"expert": 8}),
    of_experts({"data_expert": 8}),
    *([of_context({"context": 8})] if CONTEXT else []),
    *([of_context({"data_shard": 2, "context": 2, "tensor": 2}, parallelize=PLAN)] if CONTEXT else []),
    *([of_line({"pipeline": 8})] if PIPELINES else []),
    *([of_line({"data_replicate": 2, "pipeline": 2, "tensor": 2})] if PIPELINES else []),
    *([of_line({"data_replicate": 2, "data_shard": 2, "pipeline": 2})] if PIPELINES else []),
    *([of_line({"pipeline": 2, "data_shard": 2, "tensor": 2})] if PIPELINES else []),
    *([of_line({"data_shard": 2, "pipeline": 2, "context": 2}, ContextLine)] if PIPELINES else []),
    *([of_line({"data_shard": 2, "pipeline": 2, "expert": 2}, ChoosingLine)] if PIPELINES else []),
    *([of_line({"pipeline": 2, "expert": 2, "tensor": 2}, ChoosingLine)] if PIPELINES else []),
    *([of_line({"pipeline": 2, "expert": 2, "context": 2}, ChoosingContextLine)] if PIPELINES else []),
]


@pytest.mark.parametrize(("ranks_", "ways"), [(2, WAYS_2), (4, WAYS_4), (8, WAYS_8)], ids=["2", "4", "8"])
def test_a_plan_over_named_dimensions_trains_as_one_process(ranks, ranks_, ways):
    everyone = ranks(trained(ways), ranks_)
    for number in range(len(ways)):
        assert_as_one_process(everyone, number)


def test_rows_that_torch_would_gather_wrongly_are_refused(monkeypatch):
    class Spread(DTensor):
        device_mesh, placements, shape = torch.ones(4, 2), (Shard(0), Shard(0)), (12, 8)

        def __new__(cls):
            return torch.ones(12, 8).as_subclass(cls)

    module = nn.Module()
    monkeypatch.setattr(module, "named_parameters", lambda: [("head.weight", Spread())])
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.10.0"))
    check_gathers(module)
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.9.1"))
    with pytest.raises(ConfigError, match=r"head\.weight has 12 rows over 8 ranks.*LT756"):
        check_gathers(module)
    monkeypatch.setattr(Spread, "shape", (16, 8))
    check_gathers(module)


@pytest.mark.parametrize("split", ["tensor", "expert", "data_expert"])
def test_groups_sharded_after_layers_were_split_are_refused_with_the_order_that_torch_takes(split):
    with pytest.raises(ConfigError, match=f"Write mesh={{'data_shard': 2, '{split}': 2}}.*LT748"):
        check_order({split: 2, "data_shard": 2})
    check_order({"data_shard": 2, split: 2})
    check_order({split: 2, "data_shard": 1})


def test_each_rank_holds_its_part(ranks):
    whole = sum(p.numel() for p in Words().parameters())
    ((_, _, local),) = ranks(trained([planned({"data_shard": 2, "tensor": 2})]), 4)[0]
    assert local < 0.4 * whole  # a quarter, but for what the plan does not name


def test_a_plan_is_followed_where_other_layers_are_split_by_hand(ranks):
    by_plan = of_experts({"expert": 2, "tensor": 2}, parallelize=PLAN)
    ((_, _, local), (_, _, without)) = ranks(trained([by_plan, of_experts({"expert": 2, "tensor": 2})]), 4)[0]
    assert without - local == sum(p.numel() for name, p in Words().named_parameters() if is_planned(name)) / 2


def is_planned(name):
    return (
        name.startswith("head") or name.split(".")[-2] in ("queries", "keys", "values") or name.endswith("out.weight")
    )


def by_hand(module, mesh):
    for block in module.blocks:
        parallelize_module(block, mesh["tensor"], {"queries": ColwiseParallel(), "keys": ColwiseParallel()})
        parallelize_module(block, mesh["tensor"], {"values": ColwiseParallel(), "out": RowwiseParallel()})
        fully_shard(block, mesh=mesh["data_replicate", "data_shard"])
    fully_shard(module, mesh=mesh["data_replicate", "data_shard"])


def test_three_dimensions_by_hand_train_as_one_process(ranks):
    def facts(strategy):
        module = Words()
        by_hand(module, strategy.device_mesh)
        first, last, _ = train(strategy, module)
        return [(last, one_process(Words(), first, strategy.data_shard.count), 0)]

    mesh = {"data_replicate": 2, "data_shard": 1, "tensor": 2}
    assert_as_one_process(ranks(facts, 4, ModelParallel(mesh=mesh, timeout=PATIENCE)), 0)


def test_a_module_on_the_meta_device_is_split_and_sharded_from_the_same_values(ranks):
    def facts(strategy):
        with strategy.init_context():
            module = Words()
        torch.manual_seed(strategy.rank)
        first, last, _ = train(strategy, module)
        return [(last, one_process(Words(), first, strategy.data_shard.count), 0)]

    everyone = ranks(facts, 4, planned({"data_shard": 2, "tensor": 2})())
    assert_as_one_process(everyone, 0)
    assert all(torch.equal(rank[0][0]["words.weight"], everyone[0][0][0]["words.weight"]) for rank in everyone)


# ---- random numbers --------------------------------------------------------------------------------------------------


def test_random_numbers_agree_over_tensor_and_differ_over_data(ranks):
    def facts(strategy):
        torch.manual_seed(strategy.rank)  # as without seed_everything
        strategy.setup(Words(), None, Precision())
        return torch.rand(4)

    first, second, third, fourth = ranks(facts, 4, planned({"data_shard": 2, "tensor": 2})())
    assert torch.equal(first, second)
    assert torch.equal(third, fourth)
    assert not torch.equal(first, third)


def test_dropout_over_tensor_is_that_of_one_process(ranks):
    def facts(strategy):
        torch.manual_seed(7)
        _, last, _ = train(strategy, Words(noise=0.5))
        torch.manual_seed(7)
        return [(last, one_process(Words(noise=0.5), Words().state_dict(), 1), 0)]

    assert_as_one_process(ranks(facts, 2, planned({"tensor": 2})()), 0)


# ---- a model of transformers -----------------------------------------------------------------------------------------


def llama(seed=0):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=WORDS, max_position_embeddings=16,
    )  # fmt: skip

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                self.net = transformers.LlamaForCausalLM(config)

        def training_step(self, rows):
            return self.net(input_ids=rows, labels=rows, use_cache=False).loss

    return Llama()


def test_a_llama_of_transformers_is_split_by_the_plan_that_it_brings(ranks):
    pytest.importorskip("transformers")
    ways = [
        planned({"tensor": 2}, parallelize="auto"),
        planned({"tensor": 2}, parallelize="auto", loss_parallel=True),
        planned(
            {"data_shard": 2}, parallelize=None, auto_wrap_policy=lambda m: type(m).__name__ == "LlamaDecoderLayer"
        ),
    ]
    everyone = ranks(trained(ways, llama), 2)
    for number in range(len(ways)):
        assert_as_one_process(everyone, number)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        ({"data": 3, "tensor": 2}, "must be the 4 ranks of the job"),
        ({"data": "auto", "tensor": 3}, "3 is not a divisor"),
        ({"data": "auto", "tensor": "auto"}, "one of which may be 'auto'"),
        ({"data": 0, "tensor": 4}, "a size of at least 1"),
        ({}, "a size of at least 1"),
    ],
)
def test_a_mesh_that_is_not_the_job_s_is_refused(mesh, message):
    with pytest.raises(ConfigError, match=message):
        resolved(mesh, 4)


def test_ranks_that_differ_along_data_alone_read_other_data():
    sizes = {"data_replicate": 2, "tensor": 2, "data_shard": 2}
    assert [tuple(part_of_data(sizes, rank)) for rank in range(8)] == [
        (0, 4), (1, 4), (0, 4), (1, 4), (2, 4), (3, 4), (2, 4), (3, 4)
    ]  # fmt: skip
    assert resolved({"data": "auto", "tensor": 2}, 8) == {"data": 4, "tensor": 2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parallelize": {"blocks.*.querys": "colwise"}}, "is no layer of the module"),
        ({"parallelize": {"head": "colwis"}}, "Did you mean 'colwise'"),
        ({"parallelize": "auto"}, "no part of the module brings a tp_plan"),
        ({"mesh": {"data": "auto"}, "parallelize": PLAN}, "splits layers over the dimension 'tensor'"),
        ({"mesh": {"tensor": 1, "data": 1}, "parallelize": PLAN}, "before 'tensor'"),
        ({"parallelize": None}, "give ModelParallel"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(ranks, arguments, message):
    def facts(strategy):
        with pytest.raises(ConfigError, match=message):
            strategy.setup(Words(), None, Precision())

    ranks(facts, 1, ModelParallel(**{"mesh": {"data": 1, "tensor": 1}, **arguments}))


def test_a_mesh_beside_the_two_sizes_and_an_unknown_plan_are_refused():
    with pytest.raises(ConfigError, match="leave data_parallel_size"):
        ModelParallel(2, mesh={"tensor": 2})
    with pytest.raises(ConfigError, match="Did you mean 'auto'"):
        ModelParallel(parallelize="aut")


def test_fsdp_with_prefetch_and_compiled_blocks_keeps_its_names(ranks):
    def facts(strategy):
        module, _ = strategy.setup(Words(), None, Precision())
        strategy.bind(module, "training_step")(rows_of(0, 0)).backward()
        return list(module.state_dict())

    strategy = FSDP(prefetch=2, compile_blocks={"backend": "eager"}, auto_wrap_policy={Block})
    assert ranks(facts, 2, strategy) == [list(Words().state_dict())] * 2
