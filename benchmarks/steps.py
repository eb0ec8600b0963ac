"""What lt adds to one step: training, validation and prediction against loops written by hand, taking turns.

Rows A1 to A4: an MLP 64-64-10 on the CPU, one thread, batches of 32 made beforehand. A step's time is the time between
two requests for a batch; of each run the 10th percentile counts. The weights of lt and of the loop must be the same,
bit for bit.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
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


class Timed:
    """A loader over batches made beforehand that notes the time between two requests."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches, self.times = batches, []

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        last = time.perf_counter()
        for batch in self.batches:
            yield batch
            now = time.perf_counter()
            self.times.append(now - last)
            last = now


class Row(NamedTuple):
    """One line of the table: microseconds of the loop, of lt, and what is allowed on top."""

    name: str
    by_hand: float
    ours: float
    budget: float

    @property
    def added(self) -> float:
        """Microseconds that lt adds; below zero where it is faster."""
        return self.ours - self.by_hand


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


def train_by_hand(batches: list[Batch], *, set_none: bool) -> tuple[list[float], nn.Module]:
    """Train by the loop that everybody writes; ``set_none`` clears gradients without calling ``zero_grad``."""
    torch.manual_seed(0)
    net, loader = Net(), Timed(batches)
    optimizer, params = torch.optim.SGD(net.parameters(), lr=0.01), list(net.parameters())
    for batch in loader:
        loss = net.training_step(batch, 0)
        if set_none:
            for p in params:
                p.grad = None
        else:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loader.times, net


def train(batches: list[Batch], net: Callable[[], Net], **arguments: Any) -> tuple[list[float], nn.Module]:
    """Train by lt, bare unless ``arguments`` ask for more."""
    torch.manual_seed(0)
    module, loader = net(), Timed(batches)
    bare = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
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


def step_rows(steps: int = 1500, rounds: int = 5) -> list[Row]:
    """Return rows A1 to A4: medians over ``rounds`` in which loop and lt take turns."""
    torch.set_num_threads(1)
    batches = make_batches(steps)
    defaults: dict[str, Any] = {
        "enable_progress_bar": True,
        "enable_checkpointing": True,
        "logger": "csv",
    }
    found: dict[str, list[tuple[float, float]]] = {}
    train_by_hand(batches[:200], set_none=False), train(batches[:200], Net)  # warm up
    for _ in range(rounds):
        with_call, reference = train_by_hand(batches, set_none=False)
        with_none, _ = train_by_hand(batches, set_none=True)
        bare, trained = train(batches, Net)
        same_weights(reference, trained)
        logged, trained = train(batches, LoggedNet, **defaults)
        same_weights(reference, trained)
        board, trained = train(batches, LoggedNet, **{**defaults, "logger": "tensorboard"})
        same_weights(reference, trained)
        pairs = {
            "A1  training step, bare; zero_grad() by hand": (with_call, bare),
            "A1  training step, bare; p.grad = None by hand": (with_none, bare),
            "A2  bar, CSV logger, checkpoint, self.log": (with_call, logged),
            "A2t the same with TensorBoard": (with_call, board),
            "A3  validation batch with a logged mean": (validate_by_hand(batches), validate(batches)),
            "A4  prediction batch": (predict_by_hand(batches), predict(batches)),
        }
        for name, (hand, ours) in pairs.items():
            found.setdefault(name, []).append((percentile(hand), percentile(ours)))
    budgets = (0.0, 7.0, 12.0, 15.0, 3.0, 2.5)
    return [
        Row(name, _median([h for h, _ in pairs]), _median([o for _, o in pairs]), budget)
        for (name, pairs), budget in zip(found.items(), budgets, strict=True)
    ]


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
