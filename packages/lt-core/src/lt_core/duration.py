"""How long something lasts, or how often it comes, as users write it: ``"500 steps"``, ``"2 epochs"``, ``"30 min"``."""

from __future__ import annotations

import re
import reprlib
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import floor, inf
from time import monotonic
from typing import Any, Literal, Protocol, get_args

from lt_core.errors import ConfigError, ConfigTypeError, did_you_mean

__all__ = ["SLACK", "UNITS", "AgreedTime", "Duration", "Every", "Unit", "expected_of", "multiples"]

Unit = Literal["batches", "steps", "epochs", "samples", "tokens", "run", "seconds"]
"""The units of a duration."""

UNITS: tuple[Unit, ...] = get_args(Unit)


TIME = "a time: '30 min', 'DD:HH:MM:SS', datetime.timedelta(minutes=30) or {'minutes': 30}"
"""Forms of a time, for messages."""

SLACK = 1e-9
"""Of an interval: 30 steps are three tenths of 100, whatever 0.3 * 100 is in floating point."""

_SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hr": 3600}
_SECONDS |= {"hour": 3600, "d": 86400, "day": 86400, "week": 604800}
_COUNTS: Mapping[str, Unit] = {"batch": "batches", **{unit.removesuffix("s"): unit for unit in UNITS}}
_EXAMPLES: Mapping[str, str] = {
    "steps": "500 steps",
    "epochs": "2 epochs",
    "run": "0.1 run",
    "samples": "1e6 samples",
    "tokens": "1e9 tokens",
}
_PART = r"\s*([\d._]+(?:e[+-]?\d+)?)\s*([a-z]+)\s*"
_CLOCK = re.compile(r"(\d+):(\d+):(\d+):(\d+)")
_KEYWORDS = ("weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds")


@dataclass(frozen=True, slots=True)
class Duration:
    """An amount of training; one of 0 means at once: a limit that is reached at the begin, an interval each batch.

    Attributes:
        amount: how much; a whole number of steps and samples, a share from 0 to 1 of a run.
        unit: ``"batches"`` (training batches of a rank), ``"steps"`` (optimizer steps), ``"epochs"``, ``"samples"`` and
            ``"tokens"`` (of all ranks), ``"run"`` or ``"seconds"``.
    """

    amount: float
    unit: Unit

    @classmethod
    def of(cls, value: Any, units: Sequence[Unit] = ("seconds",), where: str = "{}") -> Duration:
        """Return the duration for a user's value.

        Args:
            value: a text of a number and a unit (``"1e6 samples"``; ``"1h 30min"``), or a time as ``"DD:HH:MM:SS"``,
                a :class:`datetime.timedelta` or a dict of its keyword arguments.
            units: the accepted units.
            where: how messages show the value, such as ``"Timer(duration={})"``.

        Raises:
            ConfigError: for text of another form, an unknown unit or one that does not fit, and below 0.
            ConfigTypeError: for any other type.
        """
        shown = where.format(reprlib.repr(value))
        if isinstance(value, Duration):
            found = value
        elif isinstance(value, timedelta):
            found = cls(value.total_seconds(), "seconds")
        elif isinstance(value, Mapping):
            for unit, amount in value.items():
                if unit not in _KEYWORDS:
                    hint, known = did_you_mean(str(unit), _KEYWORDS), ", ".join(_KEYWORDS)
                    raise ConfigError(f"{shown}: expected the units {known}, not {unit!r}.{hint}", code="LT355")
                if isinstance(amount, bool) or not isinstance(amount, int | float):
                    raise ConfigTypeError(
                        f"{shown}: expected a number of {unit}; received {_type_name(amount)}. Write {{{unit!r}: 30}}.",
                        code="LT355",
                    )
            found = cls(timedelta(**value).total_seconds(), "seconds")
        elif isinstance(value, str):
            found = _read(value, units, shown)
        else:
            is_number = type(value) in (int, float)
            remedy = f" For seconds write {{'seconds': {value}}} or '{value} s', for hours '{value} h'."
            remedy *= is_number and "seconds" in units
            raise ConfigTypeError(
                f"{shown}: expected {expected_of(units)}; received {_type_name(value)}.{remedy}",
                code="LT355",
            )
        problem, expected = "", f"expected {expected_of(units)}"
        if found.unit not in units:
            steps = f" Write '{found.amount:g} steps'." if found.unit == "batches" and "steps" in units else ""
            problem = f"{expected}; {found.unit!r} do not count here.{steps}"
        elif not 0 <= found.amount < inf:
            problem = f"{expected} that is {'not negative' if found.amount < inf else 'finite'}."
        elif found.unit == "run" and found.amount > 1:
            problem = "expected a share of the run from 0 to 1."
        elif found.unit in ("steps", "batches", "samples") and found.amount % 1:
            count = max(round(found.amount), 1)
            problem = f"expected a whole number of {found.unit}, 1 or more. Write '{count} {found.unit}'."
        if problem:
            raise ConfigError(f"{shown}: {problem}", code="LT355")
        return found

    @classmethod
    def time(cls, value: Any, where: str = "{}") -> timedelta:
        """Return a span of time, read as :meth:`of` does.

        Raises:
            ConfigError: for other values.
        """
        return timedelta(seconds=cls.of(value, where=where).amount)

    @classmethod
    def of_any(cls, value: Any) -> Duration:
        """Return the duration for a user's value, in any unit."""
        return cls.of(value, UNITS)

    def in_python(self) -> int | float | timedelta:
        """Return it without its unit: a timedelta of seconds, a whole number or a fraction of the others."""
        if self.unit == "seconds":
            return timedelta(seconds=self.amount)
        return self.amount if self.amount % 1 else int(self.amount)

    def __str__(self) -> str:
        return str(timedelta(seconds=self.amount)) if self.unit == "seconds" else f"{self.amount:.12g} {self.unit}"


class Elapsing(Protocol):
    """A Trainer, as far as durations look at it."""

    @property
    def world_size(self) -> int:
        """How many ranks there are."""

    def elapsed(self, unit: Unit, *, at_start: bool = False) -> float:
        """Return how much of the fit is done, or was when this process began to train."""

    def broadcast(self, value: Any) -> Any:
        """Return the argument of rank 0 on every rank."""


class AgreedTime:
    """Says how much is left of a time, and at which batch to ask again: on several ranks by rank 0's clock.

    That is half of the way that it expects until then, and never further than it was so far. So a limit of an hour at a
    thousand batches a second costs some forty broadcasts. One process, which need not broadcast, asks about once a
    second and each 64 batches, which may become slower. Calls are not counted, as a signal has one rank look after more
    batches than another. Make a new one for each span.

    Args:
        began: training batches of the fit at the begin of the span.

    Attributes:
        asks_at: the first batch at which to ask again; before it several ranks do not talk.
    """

    def __init__(self, began: float = 0) -> None:
        self._clock, self._began, self.asks_at = monotonic(), began, began + 1

    def left(self, left: float, trainer: Elapsing) -> float:
        """Return the seconds that are left, of which this rank sees ``left``; ``inf`` where the ranks don't talk."""
        here, alone = trainer.elapsed("batches"), trainer.world_size == 1
        if here < self.asks_at:
            return left if alone else inf
        done = here - self._began
        pace = done / max(monotonic() - self._clock, 1e-6)
        ahead = min(left * pace // 2, done, *((pace, 64) if alone else ()))
        left, self.asks_at = trainer.broadcast((left, here + max(1, ahead)))
        return left


class Every:
    """Says when multiples of a duration are reached: at the same batches on all ranks, and after a resume.

    :attr:`next_due` is the one rule: the elapsed amount is compared with it, and a loop runs until that can be reached.

    Args:
        duration: how often; one of 0 is due at each look.
        trainer: whose fits are counted.
        counted: of an earlier one, which this one goes on from where it is of the same duration; one of another counts
            from here on, and without any it is from where this process began to train.

    Attributes:
        reached: multiples so far.
        clock: by which ranks agree on a time.
    """

    def __init__(self, duration: Duration, trainer: Elapsing, counted: tuple[str, int] | None = None) -> None:
        self.duration, self._reference = duration, weakref.ref(trainer)  # does not keep a Trainer alive
        self._steps = 0.0
        before, reached = counted or ("", 0)
        self._count(reached if before == str(duration) else self._multiples(counted is None))

    def __getstate__(self) -> dict[str, Any]:
        """Leave the Trainer out: a copy belongs to none."""
        # a weakref does not pickle; type(None), when called, returns None like a dead one
        return {**self.__dict__, "_reference": type(None)}

    def belongs_to(self, trainer: Elapsing) -> bool:
        """Return whether this Trainer's fits are counted."""
        return self._reference() is trainer

    @property
    def _trainer(self) -> Elapsing:
        trainer = self._reference()
        assert trainer is not None
        return trainer

    def _multiples(self, at_start: bool) -> int:
        return multiples(self._trainer.elapsed(self.duration.unit, at_start=at_start), self.duration)

    def _count(self, reached: int) -> None:
        self.reached, self.clock = reached, AgreedTime(self._trainer.elapsed("batches"))

    @property
    def counted(self) -> tuple[str, int]:
        """The duration as text, and how often it was reached: plain data."""
        return str(self.duration), self.reached

    @property
    def next_due(self) -> float:
        """How much has elapsed at the next multiple, in the duration's unit."""
        return (self.reached + 1 - SLACK) * self.duration.amount

    def is_due(self, *, count: bool = True) -> bool:
        """Return whether a multiple was reached since the last one that was counted; all ranks ask at the same batches.

        Args:
            count: count it; else it stays due.
        """
        trainer, duration = self._trainer, self.duration
        if (steps := trainer.elapsed("steps")) < self._steps:  # another fit
            self._count(self._multiples(True))
        self._steps = steps
        left = self.next_due - trainer.elapsed(duration.unit)
        if duration.unit == "seconds" and duration.amount:
            left = self.clock.left(left, trainer)
        if left <= 0 and count:
            self._count(max(multiples(self.next_due - left, duration), self.reached + 1))
        return left <= 0


def multiples(elapsed: float, duration: Duration) -> int:
    """Return how often a duration fits into the elapsed amount; 0 for one of 0."""
    return floor(elapsed / duration.amount + SLACK) if duration.amount else 0


def expected_of(units: Sequence[str]) -> str:
    """Return the expectation for a message: examples of ``units``."""
    examples = ", ".join(repr(_EXAMPLES[unit]) for unit in units if unit in _EXAMPLES)
    return " or ".join(part for part in (examples, TIME * ("seconds" in units)) if part)


def _read(text: str, units: Sequence[str], shown: str) -> Duration:
    if clock := _CLOCK.fullmatch(text.strip()):
        days, hours, minutes, seconds = map(int, clock.groups())
        return Duration(timedelta(days, seconds, minutes=minutes, hours=hours).total_seconds(), "seconds")
    if not re.fullmatch(f"(?:{_PART})+", text.lower()):
        raise ConfigError(f"{shown}: expected {expected_of(units)}.{_half_an_hour(units)}", code="LT355")
    parts = []
    for number, word in re.findall(_PART, text.lower()):
        singular = word if word in _SECONDS else word.removesuffix("s")
        if singular not in _SECONDS and singular not in _COUNTS:
            hint = did_you_mean(word, [*units, *(_KEYWORDS[:5] if "seconds" in units else ())])
            raise ConfigError(
                f"{shown}: expected {expected_of(units)}; {word!r} is no unit of it.{hint}{_half_an_hour(units)}",
                code="LT355",
            )
        try:
            amount = float(number) * _SECONDS.get(singular, 1)
        except ValueError:
            expected = expected_of(units)
            raise ConfigError(f"{shown}: {number!r} is no number; expected {expected}.", code="LT355") from None
        parts.append(Duration(amount, _COUNTS.get(singular, "seconds")))
    kinds = {part.unit for part in parts}
    if len(parts) > 1 and kinds != {"seconds"}:
        raise ConfigError(f"{shown}: expected one of its parts alone; only times add up ('1h 30min').", code="LT355")
    return Duration(sum(part.amount for part in parts), kinds.pop())


def _half_an_hour(units: Sequence[str]) -> str:
    return " Half an hour is '30 min' or '00:00:30:00' (days, hours, minutes, seconds)." if "seconds" in units else ""


def _type_name(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}"
