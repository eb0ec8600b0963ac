"""Ends of a run that no count of steps or epochs gives: after a time, after so many samples or tokens."""

from __future__ import annotations

import math
import time
from datetime import timedelta

from lt_core.agreed_time import AgreedTime
from lt_core.duration import Duration
from lt_core.strategy import Strategy
from lt_loops.arguments.table import Settings
from lt_loops.run.ahead import Ahead
from lt_loops.run.progress import Progress
from lt_loops.state.position import NEVER


class Deadline:
    """Ends training after a time; that of earlier processes counts.

    It is written as the argument that asked for it; the position is that from which training goes on when it begins to
    count; whether it is reached is the same on all ranks, which ask equally often.
    """

    argument = "max_time"

    def __init__(self, after: timedelta, ahead: Ahead, strategy: Strategy) -> None:
        self._after, self._ahead, self._strategy = after, ahead, strategy
        self._ends, self._until_end = math.inf, AgreedTime()

    def __str__(self) -> str:
        return f"{self.argument}={self._after}"

    def begin(self) -> None:
        self._ends = time.perf_counter() + self._after.total_seconds() - self._ahead.position.passed

    def next_due(self) -> int:
        return NEVER if self._ends == math.inf else self._ahead.position.batch + self._ahead.group

    def reached(self) -> bool:
        return self._ends != math.inf and self._until_end.is_over(self._ends - time.perf_counter(), self._strategy)


class AmountLimit:
    """Ends training with the optimizer step that reaches a number of samples or tokens of all ranks."""

    argument = "max_duration"

    def __init__(self, most: Duration, ahead: Ahead, progress: Progress) -> None:
        self._most, self._ahead, self._progress = most, ahead, progress

    def __str__(self) -> str:
        return f"{self.argument}={self._most}"

    def begin(self) -> None:
        """Begin to count.

        Raises:
            ConfigError: where nothing says how many a batch has.
        """
        self._done()

    def next_due(self) -> int:
        return self._progress.next_multiple(self._most, 0)

    def reached(self) -> bool:
        return not self._ahead.position.micro and self._done() >= self._most.amount

    def _done(self) -> float:
        return self._progress.elapsed(self._most.unit)


Bound = Deadline | AmountLimit


def bounds_of(settings: Settings, ahead: Ahead, strategy: Strategy, progress: Progress) -> list[Bound]:
    """Return the bounds that the Trainer's arguments ask for."""
    bounds: list[Bound] = []
    if settings.max_time is not None:
        bounds.append(Deadline(settings.max_time, ahead, strategy))
    if settings.amount is not None:
        bounds.append(AmountLimit(settings.amount, ahead, progress))
    return bounds
