"""Row E: a step on two processes (gloo), against torch's DistributedDataParallel in a loop written by hand.

Torchrun starts the processes once; in them both loops take turns, and rank 0 prints the median step of each turn and
its 10th percentile. As a command, a table of DDP and of FSDP (``fully_shard`` by hand) over numbers of ranks, in time
by the clock and in processor time, which is that of rank 0 with all its threads::

    python benchmarks/ranks.py 5 --ranks 2 4 8
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import warnings
from statistics import median
from typing import Any

import torch
from figure import Figure
from steps import Timed, Times
from torch import Tensor, nn
from torch.distributed import barrier, destroy_process_group, init_process_group, is_initialized
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

Batch = tuple[Tensor, Tensor]
STEPS = 400


def batches() -> list[Batch]:
    """Return the batches that both train on."""
    generator = torch.Generator().manual_seed(0)
    few = [
        (torch.randn(64, 784, generator=generator), torch.randint(0, 10, (64,), generator=generator)) for _ in range(20)
    ]
    return [few[i % 20] for i in range(STEPS)]


def layers() -> nn.Sequential:
    """Return the classifier."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10))


def by_hand(kind: str) -> Times:
    """Train by DistributedDataParallel or ``fully_shard``; return the times between batches."""
    if not is_initialized():  # else the one that lt's run before has made
        init_process_group("gloo")
    model: Any = layers()
    if kind == "ddp":
        model = DistributedDataParallel(model)
    else:
        mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
        for layer in (*(part for part in model if isinstance(part, nn.Linear)), model):
            fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = Timed(batches())
    for batch in loader:
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loader.times


def by_lt(kind: str) -> Times:
    """Train by lt's DDP or FSDP; return the times between batches."""
    import lt as pl

    class Net(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers()

        def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
            return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    loader = Timed(batches())
    off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        many: Any = {"accelerator": "cpu", "devices": int(os.environ["WORLD_SIZE"])}
        many["strategy"] = "ddp" if kind == "ddp" else pl.strategies.FSDP(auto_wrap_policy={nn.Linear})
        pl.Trainer(use_distributed_sampler=False, max_epochs=1, **many, **off).fit(Net(), loader)
    return loader.times


def turns(rounds: int, ranks: int = 2, kind: str = "ddp") -> list[list[float]]:
    """Start ``ranks`` processes; return of each turn the median step by hand and by lt, both 10th percentiles, and the
    means of processor time.

    All are in microseconds.
    """
    run = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}")
    done = subprocess.run(
        [sys.executable, *run, __file__, str(rounds), "--kind", kind], check=True, capture_output=True, text=True
    )
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("turn ")]
    return [[float(word) for word in words] for _, *words in lines]


def rank_rows(rounds: int = 5) -> list[Figure]:
    """Return the lines of row E."""
    figure = Figure("E", "median step of the classifier, DDP on 2 processes, gloo", "µs", 1.02, "ratio")
    lowest = Figure("E", "the same, 10th percentile", "µs", 1.0, "ratio")
    for hand, ours, low, our_low, *_ in turns(rounds):
        figure.turn(hand, ours)
        lowest.turn(low, our_low)
    return [figure, lowest]


def tenth(times: list[float]) -> float:
    """Return the 10th percentile of sorted times."""
    return times[len(times) // 10]


def main() -> None:
    """Be one of the processes, or start them and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--kind", choices=["ddp", "fsdp"])
    given = parser.parse_args()
    if "RANK" in os.environ:
        be_a_rank(given.rounds, given.kind)
        return
    print("| | ranks | by hand, µs | lt, µs | ratio of medians: median [least, most] of the turns | processor time |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind in ("ddp", "fsdp") if given.kind is None else (given.kind,):
        for ranks in given.ranks:
            found = turns(given.rounds, ranks, kind)
            hand, ours = (median(turn[i] for turn in found) for i in (0, 1))
            columns = (sorted(turn[i + 1] / turn[i] for turn in found) for i in (0, 4))
            shown = [f"{median(ratios):.3f} [{ratios[0]:.3f}, {ratios[-1]:.3f}]" for ratios in columns]
            print(f"| {kind} | {ranks} | {hand:.0f} | {ours:.0f} | {' | '.join(shown)} |", flush=True)


def be_a_rank(rounds: int, kind: str) -> None:
    """Train in turns; rank 0 prints each."""
    torch.set_num_threads(1)
    by_lt(kind), by_hand(kind)
    for turn in range(rounds):
        sides = (by_hand, by_lt) if turn % 2 else (by_lt, by_hand)
        found, processor = {}, {}
        for side in sides:
            barrier()
            times = side(kind)
            found[side], processor[side] = sorted(times[50:]), times.processor
        if os.environ["RANK"] == "0":
            both = (by_hand, by_lt)
            middle, low = ([of(found[side]) * 1e6 for side in both] for of in (median, tenth))
            print("turn", *middle, *low, *(processor[side] * 1e6 for side in both), flush=True)
    gc.collect()  # torch's wrappers are in cycles, and keep the group's threads
    destroy_process_group()


if __name__ == "__main__":
    main()
