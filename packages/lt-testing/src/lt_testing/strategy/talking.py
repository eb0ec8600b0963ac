"""Checks of talk: collectives and the side channel."""
# ruff: noqa: D103  a check's name is its sentence

import time

import torch

from lt_testing.strategy.bench import Bench
from lt_testing.strategy.checks import check
from lt_testing.strategy.ranks import PATIENCE


def _mine(bench: Bench) -> torch.Tensor:
    return _all(bench)[bench.rank]


def _all(bench: Bench) -> torch.Tensor:
    parts = [torch.tensor([[1.0, -2.0], [float(rank), 0.5]]) * (rank + 1) for rank in range(bench.world_size)]
    return torch.stack(parts)


@check()
def all_reduce_means_sums_and_finds_extremes(bench: Bench) -> None:
    strategy = bench.strategy()
    mine, everyone = strategy.to_device(_mine(bench)), _all(bench)
    expected = {"mean": everyone.mean(0), "sum": everyone.sum(0), "min": everyone.amin(0), "max": everyone.amax(0)}
    for op, value in expected.items():
        torch.testing.assert_close(strategy.all_reduce(mine, op).cpu(), value)


@check()
def all_reduce_leaves_its_input_alone(bench: Bench) -> None:
    strategy = bench.strategy()
    mine = strategy.to_device(_mine(bench))
    strategy.all_reduce(mine, "sum")
    assert torch.equal(mine.cpu(), _mine(bench))


@check()
def all_reduce_keeps_integers_and_double_precision_exact(bench: Bench) -> None:
    strategy = bench.strategy()
    large = torch.tensor(2**40 + bench.rank, device=strategy.device)
    assert strategy.all_reduce(large, "max").item() == 2**40 + bench.world_size - 1
    total = bench.world_size * (bench.world_size - 1) // 2
    assert strategy.all_reduce(large, "sum").item() == bench.world_size * 2**40 + total
    if strategy.device.type != "mps":
        tiny = torch.tensor(1.0 + bench.rank * 2.0**-50, dtype=torch.float64, device=strategy.device)
        assert strategy.all_reduce(tiny, "max").item() == 1.0 + (bench.world_size - 1) * 2.0**-50


@check()
def all_reduce_takes_single_numbers(bench: Bench) -> None:
    strategy = bench.strategy()
    reduced = strategy.all_reduce(torch.tensor(float(bench.rank), device=strategy.device), "sum")
    assert reduced.shape == ()
    assert reduced.item() == sum(range(bench.world_size))


@check()
def the_mean_of_integers_is_no_integer_division(bench: Bench) -> None:
    strategy = bench.strategy()
    mean = strategy.all_reduce(torch.tensor(bench.rank, device=strategy.device), "mean").item()
    assert abs(mean - (bench.world_size - 1) / 2) < 1e-6


@check()
def all_gather_stacks_in_rank_order(bench: Bench) -> None:
    strategy = bench.strategy()
    gathered = strategy.all_gather(strategy.to_device(_mine(bench)))
    assert gathered.shape == (bench.world_size, 2, 2)
    assert torch.equal(gathered.cpu(), _all(bench))


@check()
def all_gather_takes_what_is_not_contiguous(bench: Bench) -> None:
    strategy = bench.strategy()
    gathered = strategy.all_gather(strategy.to_device(_mine(bench)).t())
    assert torch.equal(gathered.cpu(), _all(bench).transpose(1, 2))


@check()
def objects_are_gathered_in_rank_order(bench: Bench) -> None:
    found = bench.strategy().gather_objects({"rank": bench.rank, "text": "x" * bench.rank * 1000, "none": None})
    assert [entry["rank"] for entry in found] == list(range(bench.world_size))
    assert [len(entry["text"]) for entry in found] == [1000 * rank for rank in range(bench.world_size)]


@check()
def objects_are_broadcast_from_any_rank(bench: Bench) -> None:
    strategy = bench.strategy()
    for src in range(bench.world_size):
        value = {"from": bench.rank, "list": [1, 2]} if bench.rank == src else None
        assert strategy.broadcast(value, src) == {"from": src, "list": [1, 2]}


@check()
def tensors_are_broadcast_with_shape_and_dtype(bench: Bench) -> None:
    strategy = bench.strategy()
    last = bench.world_size - 1
    mine = torch.arange(6, device=strategy.device).view(2, 3) if bench.rank == last else None
    got = strategy.broadcast(mine, last)
    assert got.dtype == torch.int64
    assert torch.equal(got.cpu(), torch.arange(6).view(2, 3))


@check()
def many_kinds_of_talk_keep_their_order(bench: Bench) -> None:
    strategy = bench.strategy()
    for number in range(5):
        here = torch.tensor(float(number + bench.rank), device=strategy.device)
        assert strategy.broadcast(number if bench.rank == 0 else -1) == number
        assert strategy.all_reduce(here, "min").item() == number
        assert strategy.gather_objects(number) == [number] * bench.world_size
        strategy.barrier(f"round {number}")


@check(ranks=2)
def a_barrier_waits_for_the_last_rank(bench: Bench) -> None:
    strategy = bench.strategy()
    mark = bench.folder / "arrived"
    if bench.rank == 0:
        time.sleep(0.3)
        mark.touch()
    strategy.barrier("for rank 0")
    assert mark.exists()


@check()
def a_message_is_seen_by_every_rank(bench: Bench) -> None:
    strategy = bench.strategy()
    strategy.post(f"from {bench.rank}", f"hello {bench.rank}")
    strategy.barrier("posted")
    for rank in range(bench.world_size):
        assert strategy.peek(f"from {rank}") == f"hello {rank}"


@check()
def a_message_can_be_replaced(bench: Bench) -> None:
    strategy = bench.strategy()
    if bench.rank == 0:
        strategy.post("news", "old")
        strategy.post("news", "new")
    strategy.barrier("posted")
    assert strategy.peek("news") == "new"


@check()
def peeking_for_a_message_that_nobody_left_does_not_wait(bench: Bench) -> None:
    strategy = bench.strategy()  # opening it may take its time: a server's start, a look-up of this host's name
    start = time.monotonic()
    assert strategy.peek("nobody wrote this") is None
    assert time.monotonic() - start < PATIENCE / 15
