"""What a checkpoint costs: saving and loading 200 MB, as ratios to plain torch, in turns in one run.

    uv run benchmarks/checkpoint.py [--megabytes 200] [--rounds 7] [--folder .]

Loads run in processes of their own, as memory that was never touched is what costs; saves take turns in one process.
The ratios are of medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from figure import Figure

from lt_checkpoint import AsyncCheckpointIO
from lt_core.checkpoint import CheckpointIO
from lt_core.seed import capture_generators

BUDGETS = {
    "blocked by a background save": 0.17,
    "background save done": 1.5,
    "synchronous save": 1.15,
    "verified load": 1.3,
    "mapped load": 0.15,
}
BASE = {
    "blocked by a background save": "torch.save",
    "verified load": "torch.load",
    "mapped load": "torch.load",
}


def tree_of(megabytes: int) -> dict[str, object]:
    """Return what a training of a medium model saves: 100 weights in all, and the generators."""
    count = megabytes * 10_000 // 4
    return {"state_dict": {f"layer.{i}.weight": torch.randn(count) for i in range(100)}, "rng": capture_generators()}


def torch_save(tree: dict[str, object], path: Path, sync: bool) -> float:
    begin = time.perf_counter()
    torch.save(tree, path)
    if sync:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return time.perf_counter() - begin


def save_times(tree: dict[str, object], folder: Path, rounds: int) -> dict[str, list[float]]:
    io, background = CheckpointIO(), AsyncCheckpointIO()
    times: dict[str, list[float]] = {}
    for turn in range(rounds + 1):
        if turn == 1:
            times.clear()  # the first turn fills caches and buffers
        times.setdefault("torch.save", []).append(torch_save(tree, folder / "t.ckpt", sync=False))
        times.setdefault("torch.save + fsync", []).append(torch_save(tree, folder / "t.ckpt", sync=True))
        begin = time.perf_counter()
        io.save_checkpoint(tree, folder / "s.ckpt")
        times.setdefault("synchronous save", []).append(time.perf_counter() - begin)
        begin = time.perf_counter()
        background.save_checkpoint(tree, folder / "b.ckpt")
        times.setdefault("blocked by a background save", []).append(time.perf_counter() - begin)
        background.wait()
        times.setdefault("background save done", []).append(time.perf_counter() - begin)
    background.teardown()
    return times


LOADS: dict[str, Callable[[Path], object]] = {
    "torch.load": lambda path: torch.load(path, weights_only=True),
    "verified load": lambda path: CheckpointIO().load_checkpoint(path),
    "mapped load": lambda path: CheckpointIO().load_checkpoint(path, mmap=True),
}


def load_times(path: Path, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in LOADS}
    for _ in range(rounds):
        for name in LOADS:
            command = [sys.executable, __file__, "--load", name, str(path)]
            times[name].append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return times


def all_times(folder: str, megabytes: int, rounds: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        times = save_times(tree_of(megabytes), place, rounds)
        CheckpointIO().save_checkpoint({"a": torch.ones(1)}, place / "tiny.ckpt")
        return times | load_times(place / "s.ckpt", rounds)


def checkpoint_rows(rounds: int = 5, megabytes: int = 200, folder: str = ".") -> list[Figure]:
    times = all_times(folder, megabytes, rounds)
    rows = []
    for case, budget in BUDGETS.items():
        against = BASE.get(case, "torch.save + fsync")
        what = f"{megabytes} MB, {case}, by hand {against}"
        rows.append(Figure("F", what, "s", budget, "ratio", by_hand=times[against], ours=times[case]))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", default=".", help="a folder on the disk to measure")
    parser.add_argument("--load", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.load:
        tiny = Path(args.load[1]).with_name("tiny.ckpt")
        LOADS[args.load[0]](tiny)  # imports and first calls are not the load's
        begin = time.perf_counter()
        LOADS[args.load[0]](Path(args.load[1]))
        print(time.perf_counter() - begin)
        return
    times = all_times(args.folder, args.megabytes, args.rounds)
    print(f"{args.megabytes} MB, median (fastest) of {args.rounds} rounds, milliseconds")
    for case, values in times.items():
        by = BASE.get(case, "torch.save + fsync")
        ratio = statistics.median(values) / statistics.median(times[by])
        verdict = f"   {ratio:5.2f} x {by}, budget {BUDGETS[case]}" if case in BUDGETS else ""
        print(f"{case:30} {statistics.median(values) * 1e3:8.1f} ({min(values) * 1e3:7.1f}){verdict}")


if __name__ == "__main__":
    main()
