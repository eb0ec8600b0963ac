"""The schedule of checkpoints."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic
from typing import Any

from lt_callbacks.arguments import whole
from lt_core.duration import UNITS, AgreedTime, Duration, Every, Unit
from lt_core.errors import ConfigError
from lt_core.trainer import TrainerAPI

_COUNTS: dict[str, Unit] = {"every_n_train_steps": "steps", "every_n_epochs": "epochs"}
_TIMES: dict[str, tuple[Unit, ...]] = {"train_time_interval": ("seconds",), "every": UNITS}


class CheckpointSchedule:
    """Says at which steps, epochs or times a checkpoint is due; each argument becomes one duration.

    Args:
        every_n_train_steps: optimizer steps between two saves; 0 or None for never.
        every_n_epochs: epochs between two saves; 1 where neither of the others is given.
        train_time_interval: time between two saves: ``"10 min"``, a timedelta.
        on_train_epoch_end: save at the epoch's end (True), at validation's (False), or as validation runs (None).
        every: any duration between two saves.

    Attributes:
        every: the duration; None for never.
        every_n_train_steps, every_n_epochs, train_time_interval: the duration if it is of this kind.
        other: the duration if it is of no such kind.
        in_epoch: a save is due after a batch, and not at the end of an epoch or of a validation.

    Raises:
        ConfigError: for counts below 0, and where more than one of the four is asked for.
    """

    def __init__(
        self,
        every_n_train_steps: int | None,
        every_n_epochs: int | None,
        train_time_interval: str | timedelta | None,
        on_train_epoch_end: bool | None,
        every: Duration | timedelta | str | None = None,
    ) -> None:
        who, asked = "ModelCheckpoint", dict[str, Duration]()
        given: dict[str, Any] = {"every_n_train_steps": every_n_train_steps, "every_n_epochs": every_n_epochs}
        given |= {"train_time_interval": train_time_interval, "every": every}
        for name, unit in _COUNTS.items():
            if given[name] is not None and (count := whole(who, name, given[name], 0, "0 for never")):
                asked[name] = Duration(count, unit)
        for name, units in _TIMES.items():
            if given[name] is not None:
                asked[name] = Duration.of(given[name], units, f"{who}({name}={{}})")
        if len(asked) > 1:
            both = ", ".join(f"{name}={given[name]!r}" for name in asked)
            raise ConfigError(
                f"{who}({both}): expected one of them. Add a second ModelCheckpoint for the other.", code="LT178"
            )
        default = Duration(1, "epochs") if all(value is None for value in given.values()) else None
        self.every = next(iter(asked.values()), default)
        self.every_n_train_steps, self.every_n_epochs = self._count("steps"), self._count("epochs")
        in_time = self.every is not None and self.every.unit == "seconds"
        self.train_time_interval = timedelta(seconds=self.every.amount) if self.every and in_time else None
        self.other = None if in_time or self.every_n_train_steps or self.every_n_epochs else self.every
        self.in_epoch = self.every is not None and not self.every_n_epochs
        self._on_train_epoch_end = on_train_epoch_end
        self._began, self._lt_clock = monotonic(), AgreedTime()
        self._multiples: Every | None = None

    def _count(self, unit: Unit) -> int:
        every = self.every
        return int(every.amount) if every is not None and every.unit == unit and not every.amount % 1 else 0

    def __str__(self) -> str:
        if self.every_n_epochs:
            return "every epoch" if self.every_n_epochs == 1 else f"every {self.every_n_epochs} epochs"
        if self.every_n_train_steps:
            return f"every {self.every_n_train_steps} optimizer steps"
        if self.every is None:
            return "never by itself"
        return f"every {self.every}{' of training' if self.train_time_interval is not None else ''}"

    def start(self, trainer: TrainerAPI) -> None:
        """Begin to count and to measure the time between two saves."""
        self._measure(trainer)
        self._multiples = Every(self.every, trainer) if self.every is not None and self.in_epoch else None

    def _measure(self, trainer: TrainerAPI) -> None:
        self._began, self._lt_clock = monotonic(), AgreedTime(trainer.total_batches)

    def due_after_batch(self, trainer: TrainerAPI) -> bool:
        """Return whether a save is due after this batch; the same on all ranks."""
        interval = self.train_time_interval
        counts_all = getattr(getattr(trainer, "policy", None), "full_windows", False)
        if counts_all and self.every_n_train_steps:  # each optimizer's steps, of which a batch may pass a multiple
            return not trainer.global_step % self.every_n_train_steps
        if interval is None:
            return self._multiples is not None and self._multiples.is_due()
        # from the last save on, with validations, which a duration in seconds leaves out
        left = self._began + interval.total_seconds() - monotonic()
        due = self._lt_clock.left(left, trainer) <= 0
        if due:
            self._measure(trainer)
        return due

    def due_after_epoch(self, trainer: TrainerAPI) -> bool:
        """Return whether a save is due after this epoch."""
        return self.every_n_epochs >= 1 and (trainer.current_epoch + 1) % self.every_n_epochs == 0

    def on_train_epoch_end(self, trainer: TrainerAPI) -> bool:
        """Return True to save at the epoch's end, False to save at the end of validation."""
        if not sum(trainer.num_val_batches):  # there is no other moment
            return True
        if self._on_train_epoch_end is not None:
            return self._on_train_epoch_end
        return trainer.check_val_every_n_epoch == 1 and trainer.val_check_interval == 1.0
