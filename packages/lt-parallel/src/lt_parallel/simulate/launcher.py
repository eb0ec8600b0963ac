"""Runs a job's ranks one after another in this process, and says whether they would come to an end together."""

from __future__ import annotations

import copy
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import product
from math import prod
from typing import Any

from torch.distributed import HashStore  # type: ignore[attr-defined]

from lt_core.environment import Environment
from lt_core.errors import ConfigError, RankError
from lt_core.launcher import Launcher, RunResult
from lt_core.ranks import Ranks, Supervisor
from lt_core.seed import capture_generators, restore_generators
from lt_parallel.simulate.recorder import Call, NotYetSent, Recorder, Sent
from lt_parallel.simulate.replay import conflict, table
from lt_strategies.group import fake_group

__all__ = ["SimulateLauncher"]

_ALL = 32
"""Up to this many ranks all run; of more, the corners of the mesh and their neighbours."""


class SimulateLauncher(Launcher):
    """Runs every rank in turn in this process, on torch's fake process groups, and prints their communication.

    Each rank is a copy of the run, on the CPU, alone: it receives its own values in place of other ranks', so that
    losses mean nothing.
    ``Trainer(devices=8, strategy=..., accelerator="cpu", fast_dev_run=2, plugins="simulate")`` is the whole of it.

    Attributes:
        report: the last printed report.
    """

    name = "simulate"
    report = ""

    def launch(self, fn: Callable[..., RunResult], *args: Any, strategy: Ranks) -> RunResult:
        """Run the ranks and return rank 0's result.

        Raises:
            RankError: where they would wait forever, or give values that do not fit together.
            ConfigError: off the CPU.
        """
        if strategy.device.type != "cpu":
            raise ConfigError(
                f"launcher 'simulate' runs every rank on the CPU, and the strategy is on {strategy.device}: take "
                "accelerator='cpu'.",
                code="LT788",
            )
        size = strategy.world_size
        sizes: dict[str, int] = getattr(strategy, "mesh_sizes", {}) or {"data": size}
        generators, store = capture_generators(), HashStore()
        sent: Sent = {}
        calls: dict[int, list[Call]] = {}
        lines: dict[int, str] = {}
        result = RunResult()
        left = chosen = _chosen(sizes)
        stuck: list[int] = []
        try:
            while left and not stuck:
                waiting, known = [], len(sent)
                for rank in left:
                    restore_generators(generators)
                    ran, own, mine = copy.deepcopy((fn, args, strategy))
                    mine.join(_environment(strategy, rank))
                    mine.supervisor = Supervisor()  # no rank hangs here that would have to watch itself
                    recorder = Recorder(sent, chosen)
                    try:
                        with _printed_if_it_ends(), fake_group(rank, size, store), recorder:
                            outcome = _run(ran, own, rank, size)
                            result = outcome if rank == 0 else result
                    except NotYetSent:
                        waiting.append(rank)
                    calls[rank] = recorder.calls
                    part = getattr(mine, "data_shard", (rank, size))
                    lines[rank] = (
                        f"  rank {rank}: part {part[0] + 1} of {part[1]} of the data, {len(calls[rank])} calls"
                    )
                stuck = waiting if waiting == left and len(sent) == known else []  # nobody sends it
                left = waiting[::-1]  # stages of a pipeline ask the next one, then the one before, and so on
        finally:
            restore_generators(generators)
        self._say(sizes, [lines[rank] for rank in sorted(lines)], dict(sorted(calls.items())), stuck)
        return result

    def _say(self, sizes: dict[str, int], lines: list[str], calls: dict[int, list[Call]], stuck: list[int]) -> None:
        shape = " x ".join(f"{name} {size}" for name, size in sizes.items())
        wrong = conflict(calls, stuck)
        head = f"Simulated: {len(calls)} of {prod(sizes.values())} ranks ({shape})"
        parts = [head, *lines, "Rank 0 says to others:", *table(calls[0], _names(sizes))]
        self.report = "\n".join([*parts, *([] if wrong else ["All of these ranks reach the end."])])
        print(self.report)  # noqa: T201  (its purpose)
        if wrong:
            raise RankError(f"The ranks do not end together. {wrong}", code="LT787")


@contextmanager
def _printed_if_it_ends() -> Iterator[None]:
    """Hold back a rank's output until it has ended: a rank that has to wait runs again."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            yield
    except NotYetSent:
        raise
    except BaseException:
        sys.stdout.write(printed.getvalue())
        raise
    sys.stdout.write(printed.getvalue())


def _run(fn: Callable[..., RunResult], args: tuple[Any, ...], rank: int, size: int) -> RunResult:
    try:
        return fn(*args)
    except Exception as error:
        error.add_note(f"(rank {rank} of {size}, simulated)")
        raise


def _environment(strategy: Ranks, rank: int) -> Environment:
    size, nodes = strategy.world_size, strategy.num_nodes
    node, local = divmod(rank, size // nodes)
    return Environment(
        rank=rank,
        local_rank=local,
        node_rank=node,
        world_size=size,
        local_world_size=size // nodes,
        num_nodes=nodes,
        processes_exist=True,
    )


def _chosen(sizes: dict[str, int]) -> list[int]:
    if prod(sizes.values()) <= _ALL:
        return list(range(prod(sizes.values())))
    places = product(
        *(  # all of a pipeline: each rank needs the shapes that the one before hands on
            range(size) if name.startswith("pipeline") else sorted({0, min(1, size - 1), size - 1})
            for name, size in sizes.items()
        )
    )
    return sorted(_rank(place, sizes) for place in places)


def _rank(place: tuple[int, ...], sizes: dict[str, int]) -> int:
    number = 0
    for index, size in zip(place, sizes.values(), strict=True):
        number = number * size + index
    return number


def _names(sizes: dict[str, int]) -> dict[tuple[int, ...], str]:
    """Return the mesh's dimensions by the ranks that rank 0 meets along each."""
    found = {tuple(range(prod(sizes.values()))): "all ranks"}
    stride = prod(sizes.values())
    for name, size in sizes.items():
        stride //= size
        found.setdefault(tuple(range(0, size * stride, stride)), name)
    return found
