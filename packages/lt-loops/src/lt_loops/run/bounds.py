"""Ends of a run that no count of steps or epochs gives: after a time, after so many samples."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from lt_core.agreed_time import AgreedTime
from lt_core.errors import ConfigError
from lt_loops.run.position import NEVER

if TYPE_CHECKING:
    from lt_core.strategy import Strategy
    from lt_loops.arguments.table import Settings
    from lt_loops.run.ahead import Ahead
    from lt_loops.run.data import TrainingData


class Bound(Protocol):
    """Something that ends training; written as the argument that asked for it."""

    def begin(self) -> None:
        """Begin to count: the position is that from which training goes on."""

    def next_due(self) -> int:
        """Return the batch of this epoch after which it may be reached."""

    def reached(self) -> bool:
        """Return whether training ends here; the same on all ranks, which ask equally often."""


class Deadline:
    """Ends training after a time; that of earlier processes counts."""

    def __init__(self, after: timedelta, ahead: Ahead, strategy: Strategy) -> None:
        self._after, self._ahead, self._strategy = after, ahead, strategy
        self._ends, self._until_end = math.inf, AgreedTime()

    def __str__(self) -> str:
        return f"max_time={self._after}"

    def begin(self) -> None:
        self._ends = time.perf_counter() + self._after.total_seconds() - self._ahead.position.seconds

    def next_due(self) -> int:
        return NEVER if self._ends == math.inf else self._ahead.position.batch + self._ahead.group

    def reached(self) -> bool:
        return self._ends != math.inf and self._until_end.is_over(self._ends - time.perf_counter(), self._strategy)


class SampleLimit:
    """Ends training with the optimizer step that reaches a number of samples of all ranks.

    No batch is larger than those seen so far were, so the loop looks up where it can be reached at the earliest.
    """

    def __init__(self, most: float, ahead: Ahead, data: TrainingData) -> None:
        self._most, self._ahead, self._data = most, ahead, data
        self._last = (0, 0)  # batch and samples at the last look
        self._pace = 0.0  # samples a batch; 0 before any was seen

    def __str__(self) -> str:
        return f"max_duration={self._most:.12g} samples"

    def begin(self) -> None:
        """Begin to count.

        Raises:
            ConfigError: where batches do not say how many samples they have.
        """
        feed = self._data.feed
        if feed is not None and feed.samples is None:
            raise ConfigError(
                f"max_duration='{self._most:.12g} samples': this training loader does not say how many samples were "
                "read (a stream, or batches of its own sampler). Expected a DataLoader with a batch_size and a length; "
                "limit the fit by '... steps' instead.",
                code="LT356",
            )
        self._last = self._ahead.position.batch, self._data.global_samples

    def next_due(self) -> int:
        here, samples = self._ahead.position.batch, self._data.global_samples
        batch, before = self._last
        if here > batch:
            self._pace = max(self._pace, (samples - before) / (here - batch))
        self._last = here, samples
        batches = math.ceil((self._most - samples) / self._pace) if self._pace else 1
        return here + max(batches, self._ahead.group)

    def reached(self) -> bool:
        return not self._ahead.position.micro and self._data.global_samples >= self._most


def bounds_of(settings: Settings, ahead: Ahead, strategy: Strategy, data: TrainingData) -> list[Bound]:
    """Return the bounds that the Trainer's arguments ask for."""
    bounds: list[Bound] = []
    if settings.max_time is not None:
        bounds.append(Deadline(settings.max_time, ahead, strategy))
    if settings.max_duration is not None and settings.max_duration.unit == "samples":
        bounds.append(SampleLimit(settings.max_duration.amount, ahead, data))
    return bounds
