"""Steps on one XLA device: lt with and without ``steps_per_execution`` against a loop by hand that syncs in each step.

    uv run nox -s bench -- --xla [--rounds N]

The MLP of row A, with ``PJRT_DEVICE=CPU`` unless that is set, in the environment of ``nox -s tests-xla``.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
from figure import Figure, table
from steps import Net, Timed, make_batches, quiet
from torch import nn

import lt as pl

GROUPS = (1, 4, 8, 16)


def median_step(times: list[float]) -> float:
    """Return the mean step of the middle half of the stretches of 80 steps, in microseconds."""
    stretches = sorted(sum(times[i : i + 80]) / 80 for i in range(80, len(times) - 80, 80))
    middle = stretches[len(stretches) // 4 : -(len(stretches) // 4)]
    return sum(middle) / len(middle) * 1e6


def by_hand(loader: Timed) -> nn.Module:
    """Train as torch-xla's guide shows it."""
    torch.manual_seed(0)
    device = torch_xla.device()
    net = Net().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for batch in loader:
        x, y = (part.to(device) for part in batch)
        loss = net.training_step((x, y), 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    return net.cpu()


def by_lt(loader: Timed, group: int) -> nn.Module:
    """Train by lt, bare."""
    torch.manual_seed(0)
    net = Net()
    off = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    with quiet():
        strategy = pl.strategies.XLA(steps_per_execution=group)
        pl.Trainer(accelerator="xla", strategy=strategy, max_epochs=1, **off).fit(net, loader)
    return net.cpu()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    rounds = parser.parse_args().rounds
    batches = make_batches(1600)
    figures = {n: Figure("X", f"MLP, steps_per_execution={n}", "µs", float("inf"), "ratio") for n in GROUPS}
    by_hand(Timed(batches[:200])), by_lt(Timed(batches[:200]), 8)
    for _ in range(rounds):
        hand = Timed(batches)
        expected = by_hand(hand)
        for group, figure in figures.items():
            ours = Timed(batches)
            trained = by_lt(ours, group)
            for mine, theirs in zip(trained.parameters(), expected.parameters(), strict=True):
                torch.testing.assert_close(mine, theirs, rtol=0.0, atol=1e-6)
            figure.turn(median_step(hand.times), median_step(ours.times))
    print(table(list(figures.values())))


if __name__ == "__main__":
    main()
