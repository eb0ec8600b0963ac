"""What lt adds to one step: training, validation and prediction against loops written by hand, taking turns.

Rows A1 to A5: an MLP 64-64-10 on the CPU, one thread, batches of 32 made beforehand. A step's time is the time between
two requests for a batch. Both sides run in one process and take turns of 50 steps: lt's loader runs the loop by hand
between two of its batches. Of each turn the 10th percentile counts, and of a run the median of the turns' differences,
so that a machine whose speed changes from second to second alters both sides alike. The weights of lt and of the loop
must be the same, bit for bit. Row A5 needs a C++ compiler, which torch.compile uses.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import torch
from figure import Figure
from torch import Tensor, nn

import lt as pl

Batch = tuple[Tensor, Tensor]
BLOCK = 50  # steps of one side, before the other's turn


class Net(pl.LightningModule):
    """The MLP, without logging."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self.log("val_loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        return self(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class LoggedNet(Net):
    """The MLP that logs its loss in each step."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        self.log("loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        return loss


class CallingNet(Net):
    """The MLP for which lt calls ``optimizer.zero_grad()``, as the loop by hand does."""

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()


class HandNet(Net):
    """The MLP whose step has code of its own, so that torch.compile does not look at lt's for it."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])


class Times(list[float]):
    """Seconds between two requests for a batch; ``processor``: those of the processor, of all threads and steps."""

    processor = 0.0


class Timed:
    """A loader over batches made beforehand that notes the time between two requests.

    Args:
        batches: the batches.
        other: called with each 50 of them before they are given, outside of the times noted here.
    """

    def __init__(self, batches: list[Batch], other: Callable[[list[Batch]], None] | None = None) -> None:
        self.batches, self.times, self.other = batches, Times(), other

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        begin = time.process_time()
        for first in range(0, len(self.batches), BLOCK):
            block = self.batches[first : first + BLOCK]
            if self.other is not None:
                self.other(block)
            last = time.perf_counter()
            for batch in block:
                yield batch
                now = time.perf_counter()
                self.times.append(now - last)
                last = now
        self.times.processor = time.process_time() - begin


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep bars and lines of the runs out of the table."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123  (devnull is no path)
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            yield


def make_batches(count: int) -> list[Batch]:
    """Return ``count`` batches of 32 random samples."""
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(32, 64, generator=generator), torch.randint(0, 10, (32,), generator=generator))
        for _ in range(count)
    ]


def percentile(times: list[float]) -> float:
    """Return the 10th percentile, in microseconds."""
    return sorted(times)[len(times) // 10] * 1e6


def percentiles(times: list[float]) -> list[float]:
    """Return the 10th percentile of each turn of 50 steps, in microseconds."""
    return [percentile(times[first : first + BLOCK]) for first in range(0, len(times), BLOCK)]


def note(figure: Figure, theirs: list[float], mine: list[float]) -> None:
    """Note a run: the median of the turns by hand, and with it the median of what lt's took more."""
    hand, ours = percentiles(theirs), percentiles(mine)
    added = median(own - other for other, own in zip(hand, ours, strict=True))
    figure.turn(median(hand), median(hand) + added)


class ByHand:
    """The loop that everybody writes, a call for some of its batches.

    Args:
        set_none: clear gradients without calling ``zero_grad``.
        compiled: compile the step.
    """

    def __init__(self, *, set_none: bool, compiled: bool = False) -> None:
        torch.manual_seed(0)
        self.net, self.times, self.set_none = HandNet(), Times(), set_none
        self.step: Callable[..., Tensor] = self.net.training_step
        if compiled:
            self.step = torch.compile(self.net.training_step)
        self.optimizer, self.params = torch.optim.SGD(self.net.parameters(), lr=0.01), list(self.net.parameters())

    def __call__(self, batches: list[Batch]) -> None:
        """Train on these batches."""
        loader, step, set_none = Timed(batches), self.step, self.set_none
        optimizer, params = self.optimizer, self.params
        for batch in loader:
            loss = step(batch, 0)
            if set_none:
                for p in params:
                    p.grad = None
            else:
                optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        self.times += loader.times
        self.times.processor += loader.times.processor


def train_by_hand(batches: list[Batch], *, set_none: bool) -> tuple[Times, nn.Module]:
    """Train by hand on all batches."""
    hand = ByHand(set_none=set_none)
    hand(batches)
    return hand.times, hand.net


def train(
    batches: list[Batch], net: Callable[[], Net], hand: ByHand | None = None, **arguments: Any
) -> tuple[Times, nn.Module]:
    """Train by lt, bare unless ``arguments`` ask for more; ``hand`` trains in turns with it."""
    torch.manual_seed(0)
    module, loader = net(), Timed(batches, hand)
    bare = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        trainer = pl.Trainer(accelerator="cpu", max_epochs=1, default_root_dir=folder, **{**bare, **arguments})
        trainer.fit(module, loader)
    if hand is not None:
        same_weights(hand.net, module)
    return loader.times, module


def bare_trainer() -> Any:
    """Return a Trainer with nothing but the loop."""
    return pl.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        max_epochs=1,
    )


def validate(batches: list[Batch], figure: Figure) -> None:
    """Evaluate by lt with a logged mean of the loss over samples, and by hand."""
    net, times, sums = Net().eval(), Times(), [0.0, 0]

    def by_hand(block: list[Batch]) -> None:
        total, count, loader = 0.0, 0, Timed(block)
        with torch.inference_mode():
            for batch in loader:
                loss = nn.functional.cross_entropy(net(batch[0]), batch[1])
                total += loss.item() * len(batch[1])
                count += len(batch[1])
        sums[:] = sums[0] + total, sums[1] + count
        times.extend(loader.times)

    loader = Timed(batches, by_hand)
    (found,) = bare_trainer().validate(net, loader, verbose=False)
    assert abs(found["val_loss"] - sums[0] / sums[1]) < 1e-6, "the logged mean differs from the hand-written loop's"
    note(figure, times, loader.times)


def predict(batches: list[Batch], figure: Figure) -> None:
    """Predict by lt, and by hand."""
    net, times, outputs = Net().eval(), Times(), []

    def by_hand(block: list[Batch]) -> None:
        loader = Timed(block)
        with torch.inference_mode():
            for batch in loader:
                outputs.append(net(batch[0]))  # noqa: PERF401  (the loop that people write)
        times.extend(loader.times)

    loader = Timed(batches, by_hand)
    bare_trainer().predict(net, loader)
    note(figure, times, loader.times)


def same_weights(one: nn.Module, other: nn.Module) -> None:
    """Fail unless both hold the same weights, bit for bit."""
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), "the trained weights differ from the hand-written loop's"


def compiled_rows(batches: list[Batch], rounds: int) -> list[Figure]:
    """Return row A5: the step compiled on both sides, what logging adds to it, and how long the first one takes."""
    if shutil.which("c++") is None:
        return []
    figures = {
        Net: Figure("A5", "training step, compiled on both sides, p.grad = None", "µs", 1.02, "ratio"),
        LoggedNet: Figure("A5", "the same with self.log in lt's", "µs", 1.02, "ratio"),
    }
    first = Figure("A5", "the first step, compiled anew with torch's caches on disk filled", "s", float("inf"), "ratio")
    ByHand(set_none=True, compiled=True)(batches[:2]), train(batches[:2], Net, compile=True)  # fills them
    for _ in range(rounds):
        for net, figure in figures.items():
            torch.compiler.reset()
            hand = ByHand(set_none=True, compiled=True)
            ours, _ = train(batches, net, hand, compile=True)
            note(figure, hand.times, ours)
            if net is Net:
                first.turn(hand.times[0], ours[0])
    return [*figures.values(), first]


def step_rows(steps: int = 1500, rounds: int = 5) -> list[Figure]:
    """Return rows A1 to A5, after ``rounds`` in which loop and lt take turns."""
    torch.set_num_threads(1)
    batches = make_batches(steps)
    defaults: dict[str, Any] = {
        "enable_progress_bar": True,
        "enable_checkpointing": True,
        "logger": "csv",
    }
    calling = Figure("A1", "training step, bare; zero_grad() on both sides", "µs", 1.06, "ratio")
    bare = Figure("A1", "the same; lt sets p.grad = None, which is its default", "µs", 0.95, "ratio")
    none = Figure("A1", "the same; p.grad = None on both sides", "µs", 1.04, "ratio")
    csv = Figure("A2", "bar, CSV logger, checkpoint, self.log", "µs", 1.0, "ratio")
    mean = Figure("A2", "the same: processor time in the mean, of all threads", "µs", 1.04, "ratio")
    board = Figure("A2t", "the same with TensorBoard", "µs", 1.14, "ratio")
    validation = Figure("A3", "validation batch with a logged mean", "µs", 1.13, "ratio")
    prediction = Figure("A4", "prediction batch", "µs", 1.15, "ratio")
    ByHand(set_none=False)(batches[:200]), train(batches[:200], Net)  # warm up
    for _ in range(rounds):
        for figure, net, arguments in (
            (calling, CallingNet, {}),
            (bare, Net, {}),
            (none, Net, {}),
            (csv, LoggedNet, defaults),
            (board, LoggedNet, {**defaults, "logger": "tensorboard"}),
        ):
            hand = ByHand(set_none=figure is none)
            ours, _ = train(batches, net, hand, **arguments)
            note(figure, hand.times, ours)
        alone = ByHand(set_none=False)  # lt's threads run in both sides' turns: each side alone here
        alone(batches)
        times, trained = train(batches, LoggedNet, **defaults)
        same_weights(alone.net, trained)
        mean.turn(*(one.processor / len(batches) * 1e6 for one in (alone.times, times)))
        validate(batches, validation)
        predict(batches, prediction)
    return [calling, bare, none, csv, mean, board, validation, prediction, *compiled_rows(batches, rounds)]
