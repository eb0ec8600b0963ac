"""Limits and rates of a Trainer that may be changed while it runs; a change counts from the next batch on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import timedelta
from itertools import pairwise
from typing import Any, Literal, Self

from lt_core.duration import Duration
from lt_core.errors import ConfigError
from lt_loops.arguments.conflicts import two_batches
from lt_loops.arguments.problems import raise_problems
from lt_loops.arguments.table import ARGUMENTS, Settings, normalized, wrong_arguments

_WITHOUT_LIMIT = ("max_epochs", "check_val_every_n_epoch")
"""Limits for which None has a meaning of its own."""


@dataclass(slots=True, kw_only=True, eq=False)
class Limits:
    """The values that count now, in the one form that :class:`~lt_loops.arguments.table.Settings` has them in.

    The Trainer and its runs hold the same ones, so that a change counts wherever they are read.
    """

    max_epochs: int | None
    min_epochs: int | None
    max_steps: int
    min_steps: int | None
    accumulate_grad_batches: int | Literal["auto"] | dict[int, int]
    global_batch_size: int | None
    gradient_clip_val: float | None
    gradient_clip_algorithm: str | None
    limit_train_batches: int | float
    limit_val_batches: int | float
    limit_test_batches: int | float
    limit_predict_batches: int | float
    val_check_interval: int | float | timedelta | Duration
    check_val_every_n_epoch: int | None
    log_every_n_steps: int | Duration
    on_signal: str

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(**{name: getattr(settings, name) for name in LIMITS})

    @contextmanager
    def overridden(self, **values: Any) -> Iterator[None]:
        before = {name: getattr(self, name) for name in LIMITS}
        try:
            for name, value in values.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)

    def window_of(self, epoch: int) -> int:
        """Return how many micro-batches make an optimizer step in ``epoch``."""
        asked = self.accumulate_grad_batches
        if not isinstance(asked, dict):
            return 1 if asked == "auto" else asked
        return asked[max(start for start in asked if start <= epoch)]

    def steps_of_fit(self, batches: int | float) -> int | float:
        """Return the optimizer steps of a fit with so many batches an epoch; ``inf`` where nothing bounds them."""
        steps: int | float = float("inf") if self.max_steps == -1 else self.max_steps
        if self.max_epochs is None or self.max_epochs == -1 or batches == float("inf"):
            return steps
        asked = self.accumulate_grad_batches
        starts = sorted(asked) if isinstance(asked, dict) else [0]
        total = 0
        for start, end in pairwise([*starts, self.max_epochs]):
            epochs = max(min(end, self.max_epochs) - start, 0)
            total += epochs * -(-int(batches) // self.window_of(start))
        return min(total, steps)


LIMITS = tuple(limit.name for limit in fields(Limits))
"""The arguments that are attributes of this kind."""


class Limit:
    """An attribute of the Trainer that is checked when set, and has the plan of the loop made again."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.__doc__ = name, f"{ARGUMENTS[name].doc}."

    def __get__(self, trainer: Any, owner: type | None = None) -> Any:
        if trainer is None:
            return self
        value = getattr(trainer._limits, self.name)
        # a window by epoch: in a fit that of the present one, by which hooks count
        return trainer.window_of(trainer.current_epoch) if isinstance(value, dict) and trainer.stage == "fit" else value

    def __set__(self, trainer: Any, value: Any) -> None:
        """Check and take over a new value, in any form that the Trainer's argument of this name takes.

        Raises:
            ConfigError: for a value that it would not take.
        """
        both = {"global_batch_size": trainer.global_batch_size} | {self.name: value}
        problems = [*wrong_arguments({self.name: value}).values(), *two_batches(both)]
        raise_problems(problems, f"trainer.{self.name}", code="LT143")
        is_default = value is None and self.name not in _WITHOUT_LIMIT
        setattr(
            trainer._limits, self.name, getattr(Settings(), self.name) if is_default else normalized(self.name, value)
        )
        trainer.mark_dirty()


def limited(num_batches: int | None, limit: float | None, name: str) -> int | float:
    """Return how many batches are read of a loader: its length cut by a limit (a count, or a fraction of 1.0).

    Args:
        num_batches: the loader's length, or None where unknown.
        limit: an int is a count, a float a fraction; None for all.
        name: the limit's name, for the error.

    Raises:
        ConfigError: for a fraction of a loader without a length.
    """
    length = math.inf if num_batches is None else num_batches
    if limit is None or (isinstance(limit, float) and limit == 1.0):
        return length
    if isinstance(limit, int):
        return min(length, limit)
    if limit and num_batches is None:
        raise ConfigError(
            f"{name}={limit}: a fraction needs a loader with a length, and this one has none. Take a count of batches.",
            code="LT401",
        )
    kept = int((num_batches or 0) * limit)
    if limit and not kept:
        raise ConfigError(
            f"{name}={limit} of {num_batches} batches is less than one batch. Take a larger fraction, or a count.",
            code="LT402",
        )
    return kept
