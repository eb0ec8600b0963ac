"""Row B: an epoch of a classifier with all defaults on, against the loop that people write around a DataLoader.

Processor time counts the loader's workers too.
"""

from __future__ import annotations

import resource
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from figure import Figure
from steps import quiet
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

import lt as pl
from lt_data import CombinedLoader

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
        loss = self.loss(batch)
        self.log("loss", loss)
        return loss

    def loss(self, batch: Any) -> Tensor:
        """Return the loss of a batch, or of several side by side."""
        if isinstance(batch[0], Tensor):
            return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        return torch.stack([self.loss(part) for part in batch]).mean()

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


class Stream(IterableDataset[Batch]):
    """The same samples one after the other; each worker reads its share."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return ((self.images[number], self.labels[number]) for number in range(first, len(self.images), step))


class Beside:
    """Loaders side by side, as one writes it by hand: ``for batches in zip(one, other)``."""

    def __init__(self, *loaders: Iterable[Any]) -> None:
        self.loaders = loaders

    def __iter__(self) -> Iterator[Any]:
        return zip(*self.loaders, strict=True)


def seconds() -> Seconds:
    """Return the time by the clock, and the processor's for this process and its workers, in seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(one.ru_utime + one.ru_stime for one in used)


def elapsed(begin: Seconds) -> Seconds:
    """Return both times since ``begin``."""
    clock, processor = seconds()
    return clock - begin[0], processor - begin[1]


def by_hand(loader: Iterable[Any]) -> tuple[Seconds, nn.Module]:
    """Train one epoch; return the seconds and the module."""
    torch.manual_seed(0)
    net = Classifier()
    begin = seconds()
    optimizer = net.configure_optimizers()
    for batch in loader:
        optimizer.zero_grad()
        loss = net.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return elapsed(begin), net


BARELY = "the same without bar, logger, checkpoint and summary"
BARE = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


def by_lt(loader: Iterable[Any], **arguments: Any) -> tuple[Seconds, nn.Module]:
    """Train one epoch by lt with all defaults: bar, logger, checkpoint, summary; return the same."""
    torch.manual_seed(0)
    net = Classifier()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        begin = seconds()
        pl.Trainer(accelerator="cpu", max_epochs=1, default_root_dir=folder, **arguments).fit(net, loader)
        return elapsed(begin), net


def halves(samples: int) -> tuple[slice, slice]:
    """Return the first and the second half of so many samples."""
    return slice(0, samples // 2), slice(samples // 2, samples)


def other_loaders(images: Tensor, labels: Tensor) -> dict[str, DataLoader[Any]]:
    """Return loaders with workers, streams, and with pinned memory where there is a device to pin it for."""
    dataset, stream = OneByOne(images, labels), Stream(images, labels)
    loaders: dict[str, DataLoader[Any]] = {
        f"one by one, {workers} workers": DataLoader(dataset, 64, shuffle=True, num_workers=workers)
        for workers in (2, 4)
    }
    loaders |= {f"a stream, {workers} workers": DataLoader(stream, 64, num_workers=workers) for workers in (0, 2)}
    if torch.accelerator.is_available():
        loaders["one by one, pin_memory"] = DataLoader(dataset, 64, shuffle=True, pin_memory=True)
    return loaders


def epoch_rows(samples: int = 60_000, rounds: int = 5) -> list[Figure]:
    """Return the lines of row B."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(samples, 1, 28, 28, generator=generator)
    labels = torch.randint(0, 10, (samples,), generator=generator)
    cases: dict[str, tuple[Iterable[Any], Iterable[Any], float]] = {}
    table: TensorDataset = TensorDataset(images, labels)
    for what, dataset, budget in (
        ("epoch of the classifier, TensorDataset", table, 0.86),
        (BARELY, table, 0.83),
        ("the same, samples made one by one", OneByOne(images, labels), 1.0),
    ):
        loader: Any = DataLoader(dataset, batch_size=64, shuffle=True)
        cases[what] = loader, loader, budget
    for what, loader in other_loaders(images, labels).items():
        cases[what] = loader, loader, 1.0
    pair = [DataLoader(OneByOne(images[half], labels[half]), 64, shuffle=True) for half in halves(samples)]
    cases["CombinedLoader of two, by hand zip()"] = Beside(*pair), CombinedLoader(pair, "min_size"), 1.0
    figures = []
    for what, (theirs, mine, budget) in cases.items():
        clock = Figure("B", what, "s", budget, "ratio")
        processor = Figure("B", f"{what}: processor time", "s", budget, "ratio")
        for turn in range(rounds + 1):
            (hand, expected), (ours, trained) = by_hand(theirs), by_lt(mine, **(BARE if what == BARELY else {}))
            for a, b in zip(expected.parameters(), trained.parameters(), strict=True):
                assert torch.equal(a, b), "the trained weights differ from the hand-written loop's"
            if turn:  # the first one warms up
                clock.turn(hand[0], ours[0])
                processor.turn(hand[1], ours[1])
        figures += [clock, processor]
    return figures
