"""Row B: an epoch of a classifier with all defaults on, against the loop that people write around a DataLoader."""

from __future__ import annotations

import tempfile
import time
import warnings
from typing import Any

import torch
from figure import Figure
from steps import quiet
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import lt as pl

Batch = tuple[Tensor, Tensor]
Seconds = tuple[float, float]


class Classifier(pl.LightningModule):
    """784-128-256-10, which logs its loss in each step."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10)
        )

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class OneByOne(Dataset[Batch]):
    """Samples with code of their own, which have to be made one by one."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Batch:
        return self.images[index], self.labels[index]


def seconds() -> Seconds:
    """Return the time by the clock, and the processor's for this process, in seconds."""
    return time.perf_counter(), time.process_time()


def elapsed(begin: Seconds) -> Seconds:
    """Return both times since ``begin``."""
    clock, processor = seconds()
    return clock - begin[0], processor - begin[1]


def by_hand(loader: DataLoader[Any]) -> tuple[Seconds, nn.Module]:
    """Train one epoch; return the seconds and the module."""
    torch.manual_seed(0)
    net = Classifier()
    begin = seconds()
    optimizer = net.configure_optimizers()
    for batch in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net.layers(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
    return elapsed(begin), net


def by_lt(loader: DataLoader[Any]) -> tuple[Seconds, nn.Module]:
    """Train one epoch by lt with all defaults: bar, logger, checkpoint, summary; return the same."""
    torch.manual_seed(0)
    net = Classifier()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        begin = seconds()
        pl.Trainer(accelerator="cpu", max_epochs=1, default_root_dir=folder).fit(net, loader)
        return elapsed(begin), net


def epoch_rows(samples: int = 60_000, rounds: int = 5) -> list[Figure]:
    """Return the lines of row B."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(samples, 1, 28, 28, generator=generator)
    labels = torch.randint(0, 10, (samples,), generator=generator)
    cases = {
        "epoch of the classifier, TensorDataset": (TensorDataset(images, labels), 0.88),
        "the same, samples made one by one": (OneByOne(images, labels), 1.02),
    }
    figures = []
    for what, (dataset, budget) in cases.items():
        clock = Figure("B", what, "s", budget, "ratio")
        processor = Figure("B", f"{what}: processor time", "s", budget, "ratio")
        loader: DataLoader[Any] = DataLoader(dataset, batch_size=64, shuffle=True)
        for turn in range(rounds + 1):
            (hand, expected), (ours, trained) = by_hand(loader), by_lt(loader)
            for a, b in zip(expected.parameters(), trained.parameters(), strict=True):
                assert torch.equal(a, b), "the trained weights differ from the hand-written loop's"
            if turn:  # the first one warms up
                clock.turn(hand[0], ours[0])
                processor.turn(hand[1], ours[1])
        figures += [clock, processor]
    return figures
