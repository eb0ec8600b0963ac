"""When a fit validates: by a fraction of the epoch, by batches, by time."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from lt_core.errors import ConfigError
from lt_core.module import LightningModule
from lt_core.overrides import is_overridden
from lt_loops.run.position import NEVER

if TYPE_CHECKING:
    from lt_loops.run.frame import Run

__all__ = ["check_interval", "next_validation", "validates", "validation_due"]


def validates(run: Run) -> bool:
    """Return whether this fit has a validation at all."""
    return (
        run.trainer.limit_val_batches != 0
        and is_overridden(run.module, "validation_step", LightningModule)
        and run.loaders.has("validate")
    )


def check_interval(run: Run) -> None:
    """Refuse a ``val_check_interval`` that never comes, before the first step.

    Raises:
        ConfigError: for a count longer than the epoch, or a fraction of an epoch of unknown length.
    """
    interval, batches = run.trainer.val_check_interval, run.ahead.num_batches
    if (
        not validates(run)
        or run.trainer.check_val_every_n_epoch is None
        or isinstance(interval, timedelta)
        or not batches
    ):
        return
    if isinstance(interval, int) and interval > batches:
        raise ConfigError(
            f"val_check_interval={interval} is longer than the epoch of {batches} training batches, so there would be "
            "no validation. Take a smaller one, or check_val_every_n_epoch=None to count batches across epochs.",
            code="LT407",
        )
    if isinstance(interval, float) and interval != 1.0 and batches == float("inf"):
        raise ConfigError(
            f"val_check_interval={interval}: a fraction of the epoch needs a training loader with a length, and this "
            "one has none. Take a count of batches, or 1.0.",
            code="LT407",
        )


def _epoch_validates(run: Run) -> bool:
    every = run.trainer.check_val_every_n_epoch
    return every is None or (run.position.epoch + 1) % every == 0


def validation_due(run: Run) -> bool:
    """Return whether a validation is due between these two batches."""
    position, interval = run.position, run.trainer.val_check_interval
    if position.validated == position.batch or not validates(run) or not _epoch_validates(run):
        return False
    if run.stopping.fulfils_request():
        return True  # the metrics of the state that training ends with
    if isinstance(interval, timedelta):
        since = position.seconds + time.perf_counter() - run.clock - position.validated_seconds
        return run.until_validation.is_over(interval.total_seconds() - since)
    if run.trainer.check_val_every_n_epoch is None:
        return (position.total_batches + position.batch) % int(interval) == 0
    every = _batches_between(run)
    return run.ahead.at_end() if every is None else position.batch % every == 0


def _batches_between(run: Run) -> int | None:
    """Return how many batches lie between two validations of an epoch; None for one at the epoch's end."""
    interval = run.trainer.val_check_interval
    if isinstance(interval, int):
        return interval
    if interval == 1.0 or run.ahead.num_batches == float("inf"):
        return None
    return max(int(run.ahead.num_batches * interval), 1)


def next_validation(run: Run) -> float:
    """Return the batch of this epoch after which the next validation can be due."""
    position, interval = run.position, run.trainer.val_check_interval
    if not validates(run) or not _epoch_validates(run) or isinstance(interval, timedelta):
        return NEVER if not isinstance(interval, timedelta) else position.batch + 1
    if run.trainer.check_val_every_n_epoch is None:
        return position.batch + int(interval) - (position.total_batches + position.batch) % int(interval)
    every = _batches_between(run)
    return NEVER if every is None else (position.batch // every + 1) * every
