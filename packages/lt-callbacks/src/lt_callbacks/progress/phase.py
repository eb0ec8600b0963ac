"""One run over batches that a progress display shows: an epoch, a validation, a test."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

__all__ = ["Display", "Metrics", "Phase", "SilentDisplay", "format_metrics", "format_seconds"]

_WINDOW = 30.0
"""Seconds over which the rate is averaged: long enough to be calm, short enough to forget a slow first batch."""


@dataclass(slots=True, kw_only=True)
class Phase:
    """Progress of one run over batches.

    Attributes:
        kind: ``"sanity"``, ``"train"``, ``"validate"``, ``"test"`` or ``"predict"``.
        description: what is shown in front.
        total: batches in all, or None where unknown.
        first: batches that were done before this process began (a resume).
        nested: shown below another one (the validation inside a training epoch).
        done: batches done.
        over: it has ended.
        started: when it began (seconds of :func:`time.monotonic`), moved on by the pauses.
    """

    kind: str
    description: str
    total: int | None = None
    first: int = 0
    nested: bool = False
    done: int = 0
    over: bool = False
    started: float = field(default_factory=monotonic)
    _last: float = 0.0
    _batches: float = 0.0
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        self.done = self.first
        self._last = self.started

    def advance(self, done: int, now: float) -> None:
        """Take note that ``done`` batches are done at ``now`` (seconds)."""
        passed = now - self._last
        decay = math.exp(-passed / _WINDOW)
        self._batches = self._batches * decay + (done - self.done)
        self._seconds = self._seconds * decay + passed
        self.done, self._last = done, now

    def skip(self, seconds: float) -> None:
        """Leave out a pause that has just ended."""
        self.started += seconds
        self._last += seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the start, without pauses."""
        return max(monotonic() - self.started, 0.0)

    @property
    def rate(self) -> float | None:
        """Batches per second of late, or None where nothing was measured yet."""
        return self._batches / self._seconds if self._seconds > 0 and self._batches > 0 else None

    @property
    def remaining(self) -> float | None:
        """Estimated seconds to the end, or None where it is not known."""
        rate = self.rate
        return max(self.total - self.done, 0) / rate if rate and self.total is not None else None

    @property
    def count(self) -> str:
        """``12/340``, or ``12`` where the total is unknown."""
        return f"{self.done}/{self.total}" if self.total is not None else str(self.done)

    @property
    def speed(self) -> str:
        """``12.3 it/s``, or ``4.56 s/it`` below one batch a second; ``-- it/s`` before the first."""
        rate = self.rate
        if rate is None:
            return "-- it/s"
        return f"{rate:.1f} it/s" if rate >= 1 else f"{1 / rate:.2f} s/it"


Metrics = Callable[[], Mapping[str, Any]]
"""Fetches what stands beside the bar; called only when something is drawn, as it waits for the device."""


class Display(Protocol):
    """What puts phases before people's eyes.

    Attributes:
        delay: seconds from the start of a phase until it first shows.
    """

    delay: float

    def interval(self, phase: Phase) -> float:
        """Return the seconds until the next update."""

    def update(self, phase: Phase, metrics: Metrics) -> None:
        """Show ``phase`` as it stands now."""

    def finish(self, phase: Phase, metrics: Metrics) -> None:
        """Show that ``phase`` is over."""

    def resume(self, phase: Phase) -> None:
        """Go on with ``phase`` after a nested one."""

    def close(self) -> None:
        """Leave a clean terminal; may be called twice."""


class SilentDisplay:
    """Draws nothing."""

    delay = math.inf

    def interval(self, phase: Phase) -> float:
        return math.inf

    def update(self, phase: Phase, metrics: Metrics) -> None:
        """Draw nothing."""

    def finish(self, phase: Phase, metrics: Metrics) -> None:
        """Draw nothing."""

    def resume(self, phase: Phase) -> None:
        """Draw nothing."""

    def close(self) -> None:
        """Nothing to leave."""


def format_seconds(seconds: float | None) -> str:
    """Return ``m:ss`` or ``h:mm:ss``; ``-:--`` for None."""
    if seconds is None or not math.isfinite(seconds):
        return "-:--"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_metrics(metrics: Mapping[str, Any], separator: str = ", ", number: str | None = None) -> str:
    """Return ``name=value, ...``; numbers keep about the same width from step to step.

    Args:
        metrics: numbers (or finished strings) by name.
        separator: what stands between two.
        number: format of numbers, such as ``".2f"``; None chooses by size.
    """
    return separator.join(f"{name}={_format(value, number)}" for name, value in metrics.items())


def _format(value: Any, number: str | None) -> str:
    if isinstance(value, (str, int)):
        return str(value)
    try:
        value = float(value)
    except (TypeError, ValueError):
        return str(value)
    if number is not None:
        return format(value, number)
    return f"{value:.3f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.2e}"
