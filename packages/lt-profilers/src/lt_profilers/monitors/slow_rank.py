"""Finds the rank that the others wait for, and its slow part."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from lt_callbacks.arguments import number, whole
from lt_core.callback import Callback
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["RankTimes", "SlowRankMonitor"]


@dataclass(frozen=True, slots=True)
class RankTimes:
    """A rank's own work in a typical batch, up to its backward, in which the ranks wait for each other.

    Attributes:
        rank: its number.
        host: the machine that it is on.
        loading: seconds until the batch was there, median.
        forward: seconds from there to the backward, median; the device's where there is one.
    """

    rank: int
    host: str
    loading: float
    forward: float

    @property
    def seconds(self) -> float:
        """Both together."""
        return self.loading + self.forward


class SlowRankMonitor(Callback):
    """Names the rank that keeps the others waiting, and whether by its loader or its forward.

    All ranks take as long for a step as the slowest of them. So each measures its own work: the time from a
    batch's end to the next backward. Every ``every_n_batches`` training batches the ranks exchange their medians, and
    rank 0 prints a line where one of them takes ``ratio`` times as long as the ranks do at the median.

    Args:
        every_n_batches: batches between two reports, counted on through the epochs, 2 or more.
        ratio: how much slower a rank must be to be named.

    Attributes:
        times: of the last report, by rank; on all ranks.

    Raises:
        ConfigError: for fewer than 2 batches, or a ratio below 1.
    """

    def __init__(self, every_n_batches: int = 100, ratio: float = 1.5) -> None:
        self.every_n_batches = whole("SlowRankMonitor", "every_n_batches", every_n_batches, 2)
        self.ratio = number("SlowRankMonitor", "ratio", ratio, 1.0)
        self._lt_ended: float | None = None
        self._lt_forget_fit()

    def _lt_forget_fit(self) -> None:
        self.times: list[RankTimes] = []
        self._lt_began: Any = None
        self._lt_loading: list[float] = []
        self._lt_forward: list[tuple[Any, Any]] = []

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self._lt_forget_fit()

    def on_train_epoch_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Begin anew: workers start, and the time since the last batch was not spent loading."""
        self._lt_ended = None

    def on_train_batch_start(self, trainer: TrainerAPI, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self._lt_ended is not None:
            self._lt_loading.append(perf_counter() - self._lt_ended)
        self._lt_began = _mark(trainer.strategy.device)

    def on_before_backward(self, trainer: TrainerAPI, pl_module: LightningModule, loss: Tensor) -> None:
        """Note that the forward is done; of several a batch the first one's."""
        if self._lt_began is not None:
            self._lt_forward.append((self._lt_began, _mark(trainer.strategy.device)))
            self._lt_began = None

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.total_batches % self.every_n_batches == 0:
            self._lt_compare(trainer)
        self._lt_ended = perf_counter()

    def on_validation_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_ended = None

    def _lt_compare(self, trainer: TrainerAPI) -> None:
        forward = [_seconds(*marks) for marks in self._lt_forward]
        mine = RankTimes(trainer.global_rank, socket.gethostname(), _median(self._lt_loading), _median(forward))
        self._lt_loading, self._lt_forward = [], []
        self.times = trainer.strategy.gather_objects(mine)
        slowest = max(self.times, key=lambda times: times.seconds)
        usual = _median([times.seconds for times in self.times if times is not slowest])
        if len(self.times) > 1 and slowest.seconds > self.ratio * usual:
            trainer.print(
                f"Rank {slowest.rank} on {slowest.host} keeps the others waiting: {slowest.seconds * 1e3:.1f} ms a "
                f"batch before its backward ({slowest.loading * 1e3:.1f} ms of them for the loader), the others "
                f"{usual * 1e3:.1f} ms."
            )


def _mark(device: torch.device) -> Any:
    """Return this moment, by the device's own clock where it works asynchronously."""
    if device.type not in ("cuda", "xpu"):
        return perf_counter()
    event = torch.Event(device, enable_timing=True)
    event.record()
    return event


def _seconds(began: Any, ended: Any) -> float:
    if isinstance(began, float):
        return float(ended - began)
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1e3


def _median(values: list[float]) -> float:
    return median(values) if values else 0.0
