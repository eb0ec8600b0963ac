"""Row B: an epoch of a classifier with all defaults on, against the loop that people write around a DataLoader.

Without workers both sides run in one process and take turns of 20 batches: a callback of lt's fit runs the loop by
hand, and its time is left out of lt's. So a machine whose speed changes alters both alike. With workers, who work
ahead, a turn is an epoch. Processor time counts the workers too.
"""

from __future__ import annotations

import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
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


class ByHand:
    """An epoch of the loop that people write, in parts of some batches."""

    def __init__(self, loader: Iterable[Any]) -> None:
        torch.manual_seed(0)
        self.net, self.spent = Classifier(), (0.0, 0.0)
        begin = seconds()
        self.optimizer, batches = self.net.configure_optimizers(), iter(loader)
        self.batches = chain([next(batches)], batches)  # the order is drawn here, before lt draws it
        self.note(begin)

    def note(self, begin: Seconds) -> None:
        """Add the times since ``begin``."""
        clock, processor = elapsed(begin)
        self.spent = self.spent[0] + clock, self.spent[1] + processor

    def train(self, batches: int | None = None) -> None:
        """Train on so many batches, or on all that are left."""
        begin, net, optimizer = seconds(), self.net, self.optimizer
        for batch in islice(self.batches, batches):
            optimizer.zero_grad()
            loss = net.loss(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        self.note(begin)


class Turns(pl.Callback):
    """Has the loop by hand train on as many batches as lt is about to train on."""

    def __init__(self, hand: ByHand) -> None:
        self.hand = hand

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx % BLOCK == 0:
            self.hand.train(BLOCK)


BLOCK = 20  # batches of one side, before the other's turn
TABLE, BARELY = "epoch of the classifier, TensorDataset", "the same without bar, logger, checkpoint and summary"
BUDGETS = {TABLE: 0.86, BARELY: 0.83}
BARE = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


def by_lt(loader: Iterable[Any], hand: ByHand, in_turns: bool, **arguments: Any) -> tuple[Seconds, nn.Module]:
    """Train one epoch by lt with all defaults: bar, logger, checkpoint, summary; return the seconds and the module."""
    torch.manual_seed(0)
    net, callbacks = Classifier(), [Turns(hand)] if in_turns else []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        begin, before = seconds(), hand.spent
        trainer = pl.Trainer(accelerator="cpu", max_epochs=1, default_root_dir=folder, callbacks=callbacks, **arguments)
        trainer.fit(net, loader)
        both = elapsed(begin)
        return (both[0] - (hand.spent[0] - before[0]), both[1] - (hand.spent[1] - before[1])), net


def halves(samples: int) -> tuple[slice, slice]:
    """Return the first and the second half of so many samples."""
    return slice(0, samples // 2), slice(samples // 2, samples)


def loaders(images: Tensor, labels: Tensor, beside: Callable[[list[Any]], Iterable[Any]]) -> dict[str, Iterable[Any]]:
    """Return one side's loaders by what they are; ``beside`` puts two of them side by side."""
    table: TensorDataset = TensorDataset(images, labels)
    dataset, stream = OneByOne(images, labels), Stream(images, labels)
    found: dict[str, Iterable[Any]] = {TABLE: DataLoader(table, 64, shuffle=True)}
    found[BARELY] = found[TABLE]
    found["the same, samples made one by one"] = DataLoader(dataset, 64, shuffle=True)
    for workers in (2, 4):
        found[f"one by one, {workers} workers"] = DataLoader(dataset, 64, shuffle=True, num_workers=workers)
    for workers in (0, 2):
        found[f"a stream, {workers} workers"] = DataLoader(stream, 64, num_workers=workers)
    if torch.accelerator.is_available():
        found["one by one, pin_memory"] = DataLoader(dataset, 64, shuffle=True, pin_memory=True)
    parts = [OneByOne(images[half], labels[half]) for half in halves(len(images))]
    found["CombinedLoader of two, by hand zip()"] = beside([DataLoader(part, 64, shuffle=True) for part in parts])
    return found


def epoch_rows(samples: int = 60_000, rounds: int = 5) -> list[Figure]:
    """Return the lines of row B."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(samples, 1, 28, 28, generator=generator)
    labels = torch.randint(0, 10, (samples,), generator=generator)
    mine = loaders(images, labels, lambda pair: CombinedLoader(pair, "min_size"))
    theirs = loaders(images.clone(), labels, lambda pair: Beside(*pair))  # else one side finds the other's in the cache
    figures = []
    for what, loader in theirs.items():
        budget = BUDGETS.get(what, 1.0)
        clock = Figure("B", what, "s", budget, "ratio")
        processor = Figure("B", f"{what}: processor time", "s", budget, "ratio")
        for turn in range(rounds + 1):
            hand, in_turns = ByHand(loader), not getattr(loader, "num_workers", 0)
            if not in_turns:
                hand.train()
            ours, trained = by_lt(mine[what], hand, in_turns, **(BARE if what == BARELY else {}))
            for a, b in zip(hand.net.parameters(), trained.parameters(), strict=True):
                assert torch.equal(a, b), "the trained weights differ from the hand-written loop's"
            if turn:  # the first one warms up
                clock.turn(hand.spent[0], ours[0])
                processor.turn(hand.spent[1], ours[1])
        figures += [clock, processor]
    return figures
