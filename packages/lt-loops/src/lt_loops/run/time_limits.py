"""Limits of a run that are no count of steps or epochs: a time, a number of samples or tokens."""

from __future__ import annotations

import math
import time
from datetime import timedelta

from lt_core.duration import SLACK, AgreedTime, Duration
from lt_loops.arguments.table import Settings
from lt_loops.run.agenda import Agenda
from lt_loops.run.elapsed import Elapsed
from lt_loops.state.position import NEVER


class Deadline:
    """Ends training after a time; that of earlier processes counts.

    It is written as the argument that asked for it; the position is that from which training goes on when it begins to
    count; whether it is reached is the same on all ranks, which ask equally often.
    """

    argument = "max_time"

    def __init__(self, after: timedelta, agenda: Agenda, elapsed: Elapsed) -> None:
        self._after, self._agenda, self._elapsed = after, agenda, elapsed
        self._ends, self._clock = math.inf, AgreedTime()

    def __str__(self) -> str:
        return f"{self.argument}={self._after}"

    def begin(self) -> None:
        position = self._agenda.position
        self._ends = time.perf_counter() + self._after.total_seconds() - position.passed
        self._clock = AgreedTime(position.batches - 1)  # ranks talk at once: a run that resumes may be over already

    def next_due(self) -> int:
        return NEVER if self._ends == math.inf else self._agenda.position.batch + self._agenda.group

    def reached(self) -> bool:
        return self._ends != math.inf and self._clock.left(self._ends - time.perf_counter(), self._elapsed) <= 0


class AmountLimit:
    """Ends training with the optimizer step that reaches a number of samples or tokens of all ranks."""

    argument = "max_time"

    def __init__(self, most: Duration, agenda: Agenda, elapsed: Elapsed) -> None:
        self._most, self._agenda, self._elapsed = most, agenda, elapsed

    def __str__(self) -> str:
        return f"{self.argument}={self._most}"

    def begin(self) -> None:
        """Begin to count.

        Raises:
            ConfigError: where nothing says how many a batch has.
        """
        self._done()

    def next_due(self) -> int:
        return self._elapsed.batch_of(self._most.unit, self._most.amount * (1 - SLACK))

    def reached(self) -> bool:
        return not self._agenda.position.micro and self._done() >= self._most.amount

    def _done(self) -> float:
        return self._elapsed.elapsed(self._most.unit)


TimeLimit = Deadline | AmountLimit


def time_limits_of(settings: Settings, agenda: Agenda, elapsed: Elapsed) -> list[TimeLimit]:
    """Return the limits that the Trainer's arguments ask for."""
    limits: list[TimeLimit] = []
    if settings.max_time is not None:
        limits.append(Deadline(settings.max_time, agenda, elapsed))
    if settings.amount is not None:
        limits.append(AmountLimit(settings.amount, agenda, elapsed))
    return limits
