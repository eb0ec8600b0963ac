"""Loading alone: an epoch of lt's feed against torch's DataLoader, in turns in one process.

``python benchmarks/data.py`` prints a table: seconds of an epoch each, and how many times faster the feed is. The goal
is 5 on the table of tensors of MNIST's size; data with code of its own in ``__getitem__`` may cost nothing more.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from statistics import median
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from lt_core.data import make_feed


class Augmented(Dataset[Any]):
    """Samples with code of their own, which have to be made one by one."""

    def __init__(self, data: torch.Tensor) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.data[index]


def loaders(samples: int) -> dict[str, tuple[DataLoader[Any], float]]:
    """Return loaders by what they show, each with the ratio that is asked for."""
    images = torch.randn(samples, 1, 28, 28)
    table = TensorDataset(images, torch.randint(0, 10, (samples,)))
    half = Subset(table, torch.randperm(samples)[: samples // 2].tolist())
    return {
        "table, shuffled": (DataLoader(table, batch_size=64, shuffle=True), 5.0),
        "table, in order": (DataLoader(table, batch_size=64), 5.0),
        "half of it, shuffled": (DataLoader(half, batch_size=64, shuffle=True), 5.0),
        "one by one, shuffled": (DataLoader(Augmented(images), batch_size=64, shuffle=True), 0.95),
    }


def epoch(batches: Iterable[Any]) -> float:
    """Return the seconds that reading ``batches`` takes."""
    start = time.perf_counter()
    for _ in batches:
        pass
    return time.perf_counter() - start


def same_batches(loader: DataLoader[Any]) -> bool:
    """Return whether both give the same batches, bit for bit, and leave the generator at the same place."""
    torch.manual_seed(0)
    theirs = list(loader)
    next_draw = torch.rand(1)
    torch.manual_seed(0)
    for mine, batch in zip(make_feed(loader, stage="fit"), theirs, strict=True):
        pairs = zip(mine, batch, strict=True) if isinstance(mine, list) else [(mine, batch)]
        if not all(torch.equal(a, b) for a, b in pairs):
            return False
    return torch.equal(torch.rand(1), next_draw)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"Seconds for an epoch of {args.samples} samples of 1x28x28, batch 64, median of {args.rounds} turns:")
    print(f"{'':22}  DataLoader      lt   times faster   asked")
    for name, (loader, asked) in loaders(args.samples).items():
        assert same_batches(loader), name
        feed = make_feed(loader, stage="fit")
        turns = [(epoch(loader), epoch(feed)) for _ in range(args.rounds)]
        theirs, mine = (median(times) for times in zip(*turns, strict=True))
        ratio = median(a / b for a, b in turns)
        verdict = "" if ratio >= asked else "  missed"
        print(f"{name:22}  {theirs:10.3f}  {mine:6.3f}   {ratio:12.2f}   {asked:5.2f}{verdict}")


if __name__ == "__main__":
    main()
