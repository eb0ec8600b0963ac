"""What lt adds to one step: training, validation and prediction against loops written by hand, taking turns.

Rows A1 to A5: an MLP 64-64-10 on the CPU, one thread, batches of 32 made beforehand. A step's time is the time between
two requests for a batch; of each run the 10th percentile counts. The weights of lt and of the loop must be the same,
bit for bit. Row A5 needs a C++ compiler, which torch.compile uses.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from figure import Figure
from torch import Tensor, nn

import lt as pl

Batch = tuple[Tensor, Tensor]


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


class Times(list[float]):
    """Seconds between two requests for a batch; ``processor``: the mean of the processor's, of all threads."""

    processor = 0.0


class Timed:
    """A loader over batches made beforehand that notes the time between two requests."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches, self.times = batches, Times()

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        begin, last = time.process_time(), time.perf_counter()
        for batch in self.batches:
            yield batch
            now = time.perf_counter()
            self.times.append(now - last)
            last = now
        self.times.processor = (time.process_time() - begin) / len(self.batches)


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


def train_by_hand(batches: list[Batch], *, set_none: bool, compiled: bool = False) -> tuple[Times, nn.Module]:
    """Train by the loop that everybody writes; ``set_none`` clears gradients without calling ``zero_grad``."""
    torch.manual_seed(0)
    net, loader = Net(), Timed(batches)
    step = torch.compile(net.training_step) if compiled else net.training_step
    optimizer, params = torch.optim.SGD(net.parameters(), lr=0.01), list(net.parameters())
    for batch in loader:
        loss = step(batch, 0)
        if set_none:
            for p in params:
                p.grad = None
        else:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loader.times, net


def train(batches: list[Batch], net: Callable[[], Net], **arguments: Any) -> tuple[Times, nn.Module]:
    """Train by lt, bare unless ``arguments`` ask for more."""
    torch.manual_seed(0)
    module, loader = net(), Timed(batches)
    bare = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        trainer = pl.Trainer(accelerator="cpu", max_epochs=1, default_root_dir=folder, **{**bare, **arguments})
        trainer.fit(module, loader)
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


def validate_by_hand(batches: list[Batch]) -> list[float]:
    """Evaluate by hand, with a mean of the loss over samples."""
    net, loader, total, count = Net().eval(), Timed(batches), 0.0, 0
    with torch.inference_mode():
        for batch in loader:
            loss = nn.functional.cross_entropy(net(batch[0]), batch[1])
            total += loss.item() * len(batch[1])
            count += len(batch[1])
    return loader.times


def validate(batches: list[Batch]) -> list[float]:
    """Evaluate by lt, with a logged mean."""
    loader = Timed(batches)
    bare_trainer().validate(Net(), loader, verbose=False)
    return loader.times


def predict_by_hand(batches: list[Batch]) -> list[float]:
    """Predict by hand."""
    net, loader, outputs = Net().eval(), Timed(batches), []
    with torch.inference_mode():
        for batch in loader:
            outputs.append(net(batch[0]))  # noqa: PERF401  (the loop that people write)
    return loader.times


def predict(batches: list[Batch]) -> list[float]:
    """Predict by lt."""
    loader = Timed(batches)
    bare_trainer().predict(Net(), loader)
    return loader.times


def same_weights(one: nn.Module, other: nn.Module) -> None:
    """Fail unless both hold the same weights, bit for bit."""
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), "the trained weights differ from the hand-written loop's"


def compiled_rows(batches: list[Batch], rounds: int) -> list[Figure]:
    """Return row A5: the step compiled on both sides, what logging adds to it, and how long the first one takes."""
    if shutil.which("c++") is None:
        return []
    figures = {
        Net: Figure("A5", "training step, compiled on both sides, p.grad = None", "µs", float("inf")),
        LoggedNet: Figure("A5", "the same with self.log in lt's", "µs", 3.0),
    }
    first = Figure("A5", "the first step, compiled anew with torch's caches on disk filled", "s", float("inf"), "ratio")
    train_by_hand(batches[:2], set_none=True, compiled=True), train(batches[:2], Net, compile=True)  # fills them
    for _ in range(rounds):
        torch.compiler.reset()
        times, reference = train_by_hand(batches, set_none=True, compiled=True)
        for net, figure in figures.items():
            torch.compiler.reset()
            ours, trained = train(batches, net, compile=True)
            same_weights(reference, trained)
            figure.turn(percentile(times), percentile(ours))
            if net is Net:
                first.turn(times[0], ours[0])
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
    calling = Figure("A1", "training step, bare; zero_grad() on both sides", "µs", 7.0)
    bare = Figure("A1", "the same; lt sets p.grad = None, which is its default", "µs", 0.0)
    none = Figure("A1", "the same; p.grad = None on both sides", "µs", float("inf"))
    csv = Figure("A2", "bar, CSV logger, checkpoint, self.log", "µs", 12.0)
    mean = Figure("A2", "the same: processor time in the mean, of all threads", "µs", 5.0)
    board = Figure("A2t", "the same with TensorBoard", "µs", 15.0)
    validation = Figure("A3", "validation batch with a logged mean", "µs", 3.0)
    prediction = Figure("A4", "prediction batch", "µs", 2.5)
    train_by_hand(batches[:200], set_none=False), train(batches[:200], Net)  # warm up
    for _ in range(rounds):
        with_call, reference = train_by_hand(batches, set_none=False)
        with_none, _ = train_by_hand(batches, set_none=True)
        hand = percentile(with_call)
        for figure, net, arguments in (
            (calling, CallingNet, {}),
            (bare, Net, {}),
            (csv, LoggedNet, defaults),
            (board, LoggedNet, {**defaults, "logger": "tensorboard"}),
        ):
            times, trained = train(batches, net, **arguments)
            same_weights(reference, trained)
            figure.turn(hand, percentile(times))
            if figure is csv:
                mean.turn(with_call.processor * 1e6, times.processor * 1e6)
        none.turn(percentile(with_none), bare.ours[-1])
        validation.turn(percentile(validate_by_hand(batches)), percentile(validate(batches)))
        prediction.turn(percentile(predict_by_hand(batches)), percentile(predict(batches)))
    return [calling, bare, none, csv, mean, board, validation, prediction, *compiled_rows(batches, rounds)]
