"""What users say to the other ranks from a module or a Trainer, on two ranks."""

import warnings

import pytest
import torch

from lt_core import LightningModule
from lt_core.errors import ConfigError, RankError
from lt_strategies import DDP
from lt_testing import FakeTrainer

pytestmark = pytest.mark.ddp


def talk(strategy):
    rank = strategy.rank
    trainer = FakeTrainer(strategy=strategy, world_size=strategy.world_size)
    module = LightningModule()
    module.trainer = trainer
    found = {}
    for name, speaker in (("module", module), ("trainer", trainer)):
        found[name] = {
            "gathered": speaker.all_gather({"x": torch.tensor([rank, 10.0])})["x"].tolist(),
            "numbers": speaker.all_gather(rank).tolist(),
            "mean": speaker.reduce(torch.tensor([1.0, 2.0]) * rank).tolist(),
            "sum": speaker.reduce(rank + 1, "sum").item(),
            "told": speaker.broadcast(f"from {rank}", src=1),
        }
        speaker.barrier("both")
    found["by Lightning's name"] = strategy.reduce(torch.tensor(rank), reduce_op="SUM").item()
    found["gradient"] = gradient(module, rank)
    try:
        module.barrier("mine") if rank else module.reduce(1.0)
    except RankError as error:
        found["disagree"] = str(error)
    return found


def gradient(module, rank):
    """Return the gradient of a loss over all ranks' values, with and without gradients through the gathering."""
    mine = torch.tensor([1.0, 2.0]) * (rank + 1)
    grads = []
    for sync_grads in (True, False):
        leaf = mine.clone().requires_grad_()
        everyone = module.all_gather(leaf * 3, sync_grads=sync_grads)
        loss = (everyone.pow(2) * (rank + 1)).sum() + leaf.sum() * 0
        loss.backward()
        grads.append(leaf.grad.tolist())
    return grads


class OnAnotherDevice(DDP):
    """Its device is none that gloo can talk for, as CUDA is none; ``meta`` stands in for it."""

    device = torch.device("meta")


def talk_on_another_device(strategy):
    rank, found = strategy.rank, {}
    for src in (0, 1):
        found[src] = strategy.broadcast(torch.tensor([rank, 5.0]), src=src)
    mine = torch.ones(2) if rank else torch.ones(2, device="meta")
    for call in (strategy.all_reduce, strategy.all_gather):
        with pytest.raises(RankError, match=r"on meta; rank 1: all_.* on cpu"):
            call(mine)
    return found


def test_a_tensor_on_the_cpu_reaches_ranks_whose_device_is_another_one(ranks):
    for found in ranks(talk_on_another_device, 2, OnAnotherDevice(process_group_backend="gloo")):
        assert [(value.device.type, value.tolist()) for value in found.values()] == [
            ("cpu", [0.0, 5.0]),
            ("cpu", [1.0, 5.0]),
        ]


@pytest.fixture(scope="module")
def told(ranks):
    return ranks(talk, 2)


@pytest.mark.parametrize("speaker", ["module", "trainer"])
def test_module_and_trainer_talk_to_all_ranks(told, speaker):
    for rank in told:
        assert rank[speaker] == {
            "gathered": [[0.0, 10.0], [1.0, 10.0]],
            "numbers": [0, 1],
            "mean": [0.5, 1.0],
            "sum": 3,
            "told": "from 1",
        }
        assert rank["by Lightning's name"] == 1


def test_gradients_flow_through_all_gather_to_the_rank_that_gave_the_tensor(told):
    """Rank r's loss is (r+1) * sum over ranks of (3x)**2: the gradient of x is 18x, times 1 + 2 for both losses."""
    for rank, found in enumerate(told):
        through, without = found["gradient"]
        assert through == [54.0 * (rank + 1), 108.0 * (rank + 1)]
        assert without == [0.0, 0.0]


def test_ranks_that_make_different_calls_get_an_error_that_names_them(told):
    for rank in told:
        assert "rank 0: all_reduce mean" in rank["disagree"]
        assert "rank 1: barrier 'mine'" in rank["disagree"]


SIZES = [0, 1, 700, 800, 2**16, 2**16 + 1, 3 * 2**20]
"""Characters: of a message in which it fits beside the call, of one that goes by rank 0, of one that goes round."""


def exchange(strategy):
    """Return what this rank finds of each kind and size, as it should be and as it is."""
    rank, found = strategy.rank, []
    for size in SIZES:
        words = [str(other) * size for other in range(3)]
        found.append((words, strategy.gather_objects(words[rank])))
        found.append((["a"] * 3, strategy.gather_objects("a")))
        uneven = ["", words[1], "b"]
        found.append((uneven, strategy.gather_objects(uneven[rank])))
        found += [(words[src], strategy.broadcast(words[rank] if rank == src else object, src)) for src in range(3)]
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.bool, torch.uint8, torch.int64, torch.complex64):
        for shape in ((), (0,), (3,), (2, 3), (40, 5)):
            parts = [torch.full(shape, other + 1).to(dtype) for other in range(3)]
            gathered = strategy.all_gather(parts[rank].T if len(shape) == 2 else parts[rank])
            expected = torch.stack([part.T if len(shape) == 2 else part for part in parts])
            found.append(((dtype, expected.tolist()), (gathered.dtype, gathered.tolist())))
    tensors = [torch.arange(5.0) * other for other in range(3)]
    found += [(tensors[src].tolist(), strategy.broadcast(tensors[rank], src).tolist()) for src in range(3)]
    for op, expected in (("sum", 6.0), ("mean", 2.0), ("min", 1.0), ("max", 3.0)):
        found.append((expected, strategy.all_reduce(torch.tensor(rank + 1.0), op).item()))
    return found


def test_three_ranks_hear_each_other_whatever_the_size_kind_and_source(ranks):
    for found in ranks(exchange, 3):
        for expected, given in found:
            assert given == expected


def disagree(strategy):
    """Return what a rank is told of different calls: by their kind, their shape, or the end of a long name."""
    said = []
    for mine, other in [
        (lambda: strategy.barrier("x" * 500 + "\N{SNOWMAN}"), lambda: strategy.barrier("x" * 500)),
        (lambda: strategy.all_gather(torch.ones(2)), lambda: strategy.all_gather(torch.ones(3))),
        (lambda: strategy.gather_objects("y" * 5000), lambda: strategy.broadcast("y" * 5000, src=1)),
        (lambda: strategy.broadcast("z" * 5000), lambda: strategy.barrier("\N{SNOWMAN}" * 300)),
        # both exchange objects: without the place of lt's own calls one would be taken for the other
        (lambda: strategy.check_same_parameters(torch.nn.Linear(1, 1)), lambda: strategy.gather_objects(0)),
    ]:
        with pytest.raises(RankError) as caught:
            mine() if strategy.rank == 2 else other()
        said.append(caught.value.code)
        strategy.barrier("and ranks can go on")
    return said


def test_three_ranks_that_make_different_calls_are_told_and_go_on(ranks):
    assert ranks(disagree, 3) == [["LT709"] * 5] * 3


LAZY = {
    "conjugate": lambda z: z.conj(),
    "negative": lambda z: z.conj().imag,
    "both": lambda z: z.conj().imag.conj(),
    "conjugate, every other": lambda z: z.conj()[::2],
    "large conjugate": lambda z: z.repeat(200).conj(),
    "large negative": lambda z: z.repeat(200).conj().imag,
    "a matrix's adjoint": lambda z: z.view(2, 2).mH,
}
"""Tensors whose memory holds other numbers than their values."""


def say_lazily(strategy):
    parts = [torch.tensor([1 + 2j, 3 - 4j, 5j, 6]) * (rank + 1) for rank in range(2)]
    found = {}
    for name, make in LAZY.items():
        mine = make(parts[strategy.rank])
        given = [strategy.all_gather(mine), strategy.broadcast(mine, 1), strategy.all_reduce(mine, "sum")]
        values = [make(part).resolve_conj().resolve_neg().clone() for part in parts]
        found[name] = [
            torch.equal(is_, should)
            for is_, should in zip(given, (torch.stack(values), values[1], sum(values)), strict=True)
        ]
    objects = [strategy.broadcast({"x": torch.empty(2, device="meta")} if strategy.rank == 0 else None)]
    objects += strategy.gather_objects({"x": torch.empty(2, device="meta")})
    found["meta"] = [(value["x"].device.type, value["x"].shape) == ("meta", (2,)) for value in objects]
    return found


def test_values_arrive_whatever_the_memory_holds(ranks):
    assert ranks(say_lazily, 2) == [dict.fromkeys(LAZY, [True] * 3) | {"meta": [True] * 3}] * 2


def ask_wrongly(strategy):
    said = []
    for src in (-1, 2, 9):
        with pytest.raises(ConfigError, match=rf"broadcast\(src={src}\): expected one of 0 to 1\..*LT707"):
            strategy.broadcast(5, src=src)
        said.append(strategy.broadcast(strategy.rank, src=1))
    return said


def test_a_source_that_is_no_rank_is_refused(ranks):
    assert ranks(ask_wrongly, 2) == [[1] * 3] * 2


def say_quantized(strategy):
    warnings.simplefilter("ignore")  # that torch will drop them
    quantized = torch._empty_affine_quantized([3], scale=0.1, zero_point=0, dtype=torch.qint8)
    try:
        strategy.all_gather(quantized)
    except RuntimeError as error:
        return str(error)


def test_gloo_says_that_it_takes_no_quantized_tensor(ranks):
    assert all("QuantizedCPU" in said for said in ranks(say_quantized, 2))
