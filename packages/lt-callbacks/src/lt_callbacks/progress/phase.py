"""Progress of one run over batches: an epoch, a validation, a test."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

_WINDOW = 30.0
"""Seconds over which the rate is averaged: long enough to be calm, short enough to forget a slow first batch."""


@dataclass(slots=True, kw_only=True)
class Phase:
    """Progress of one run over batches.

    Attributes:
        kind: ``"sanity"``, ``"train"``, ``"validate"``, ``"test"`` or ``"predict"``.
        description: text before the bar.
        total: batches in all, or None where unknown.
        first: batches that were done before this process began (a resume).
        nested: it runs inside another one (a validation inside a training epoch), on the same line.
        apart: nested, with a line of its own.
        label: text before the bar; the description, unless the user sets another.
        postfix: text after the bar, set by the user.
        done: batches done.
        over: it has ended.
        started: when it began (seconds of :func:`time.monotonic`), moved on by the pauses.
        unit: unit of :attr:`units`: ``"it"`` (batches), ``"samples"`` or ``"tokens"``.
        units: how many of them were done by this process.
    """

    kind: str
    description: str
    total: int | None = None
    first: int = 0
    nested: bool = False
    apart: bool = False
    label: str = ""
    postfix: str = ""
    done: int = 0
    over: bool = False
    started: float = field(default_factory=monotonic)
    unit: str = "it"
    units: float = 0.0
    _last: float = 0.0
    _batches: float = 0.0
    _lately: float = 0.0
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        self.label = self.description
        self.done = self.first
        self._last = self.started

    def advance(self, done: int, now: float, units: float | None = None) -> None:
        """Note that ``done`` batches are done at ``now`` (seconds), and ``units`` units in them."""
        passed = now - self._last
        decay = math.exp(-passed / _WINDOW)
        units = done - self.first if units is None else units
        self._batches = self._batches * decay + (done - self.done)
        self._lately = self._lately * decay + (units - self.units)
        self._seconds = self._seconds * decay + passed
        self.done, self.units, self._last = done, units, now

    def resume(self, now: float) -> None:
        """Leave out the pause since the last advance."""
        self.started += now - self._last
        self._last = now

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
    def times(self) -> str:
        """How long it has taken and will take: ``0:04<0:02``."""
        return f"{format_seconds(self.elapsed)}<{format_seconds(self.remaining)}"

    @property
    def speed(self) -> str:
        """How fast it went of late: ``640 samples/s``, ``12.3 it/s``, ``4.56 s/it`` below one a second."""
        return _speed(self._lately, self._seconds, self.unit)

    @property
    def mean_speed(self) -> str:
        """How fast it went as a whole, in the form of :attr:`speed`."""
        return _speed(self.units, self.elapsed, self.unit)

    @property
    def mean_rate(self) -> str:
        """The same as a bare number of units per second."""
        return _number(self.units / self.elapsed) if self.elapsed > 0 else ""


def _speed(units: float, seconds: float, unit: str) -> str:
    if not (units > 0 and seconds > 0):
        return f"-- {unit}/s"
    rate = units / seconds
    return f"{_number(rate)} {unit}/s" if rate >= 1 else f"{1 / rate:.2f} s/{unit.removesuffix('s')}"


def _number(rate: float) -> str:
    power = min(int(math.log10(rate) // 3), 3) if rate >= 10_000 else 0
    scaled = rate / 1000**power
    digits = 0 if scaled >= 100 else 1 if scaled >= 1 else 2
    return f"{scaled:.{digits}f}{('', 'k', 'M', 'G')[power]}"


Metrics = Callable[[], Mapping[str, Any]]
"""Returns the metrics beside the bar; called only to draw, as it waits for the device."""


class Display(Protocol):
    """Shows phases; the default of each method does nothing.

    Attributes:
        delay: seconds from the start of a phase until it first shows.
    """

    delay: float

    def interval(self, phase: Phase) -> float:
        """Return the seconds until the next update."""

    def update(self, phase: Phase, metrics: Metrics) -> None:
        """Show the progress of ``phase``."""
        return

    def finish(self, phase: Phase, metrics: Metrics) -> None:
        """Show that ``phase`` is over."""
        return

    def resume(self, phase: Phase) -> None:
        """Go on with ``phase`` after a nested one."""
        return

    def close(self) -> None:
        """Leave a clean terminal; may be called twice."""
        return


class SilentDisplay(Display):
    """Draws nothing."""

    delay = math.inf

    def interval(self, phase: Phase) -> float:
        return math.inf


def convert_inf(count: float | None) -> int | None:
    """Return a number of batches; None where it is unknown."""
    return int(count) if count is not None and math.isfinite(count) else None


def format_seconds(seconds: float | None, *, short: bool = False) -> str:
    """Return ``m:ss`` or ``h:mm:ss``; ``-:--`` for None; with ``short`` ``2.3 s`` below a minute."""
    if seconds is None or not math.isfinite(seconds):
        return "-:--"
    if short and seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_metrics(metrics: Mapping[str, Any], separator: str = ", ", number: str | None = None) -> str:
    """Return ``name=value, ...``; numbers keep about the same width from step to step.

    Args:
        metrics: numbers (or finished strings) by name.
        separator: separator of metrics.
        number: format of numbers, such as ``".2f"``; None chooses by size.
    """
    return separator.join(f"{name}={format_value(value, number)}" for name, value in metrics.items())


def fit_metrics(metrics: Mapping[str, Any], room: int, separator: str = " ", number: str | None = None) -> str:
    """Return as many metrics as fit into ``room`` columns, in their order, and how many more there are."""
    shown = [format_metrics({name: value}, number=number) for name, value in metrics.items()]
    for kept in range(len(shown), -1, -1):
        text = separator.join([*shown[:kept], *([f"+{len(shown) - kept}"] if kept < len(shown) else [])])
        if len(text) <= room:
            return text
    return ""


def format_value(value: Any, number: str | None = None) -> str:
    """Return a number in about the same width whatever its size; texts as they are."""
    if isinstance(value, (str, int)):
        return str(value)
    try:
        value = float(value)
    except (TypeError, ValueError):
        return str(value)
    if number is not None:
        return format(value, number)
    return f"{value:.3f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.2e}"
