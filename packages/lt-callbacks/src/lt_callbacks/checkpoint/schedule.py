"""When checkpoints are due."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic

from lt_callbacks.arguments import whole
from lt_core.agreed_time import AgreedTime
from lt_core.duration import UNITS, Duration, Every
from lt_core.errors import ConfigError
from lt_core.trainer import TrainerAPI


class CheckpointSchedule:
    """Says at which steps, epochs or times a checkpoint is due.

    Args:
        every_n_train_steps: optimizer steps between two saves; 0 or None for never.
        every_n_epochs: epochs between two saves; 1 where neither of the others is given.
        train_time_interval: time between two saves: ``"10 min"``, a timedelta.
        every: any duration between two saves.
        on_train_epoch_end: save at the epoch's end (True), at validation's (False), or as validation runs (None).

    Raises:
        ConfigError: for counts below 0, and where more than one of the three is asked for.
    """

    def __init__(
        self,
        every_n_train_steps: int | None,
        every_n_epochs: int | None,
        train_time_interval: str | timedelta | None,
        on_train_epoch_end: bool | None,
        every: Duration | timedelta | str | None = None,
    ) -> None:
        if train_time_interval is not None:
            train_time_interval = Duration.time(train_time_interval, "ModelCheckpoint(train_time_interval={})")
        if every is not None:
            every = Duration.of(every, UNITS, "ModelCheckpoint(every={})")
        _check(every_n_train_steps, every_n_epochs, train_time_interval, every)
        if every is not None and every.unit == "seconds":
            train_time_interval, every = timedelta(seconds=every.amount), None
        elif every is not None and every.unit == "steps" and every.amount:
            every_n_train_steps, every = int(every.amount), None
        elif every is not None and every.unit == "epochs" and every.amount and not every.amount % 1:
            every_n_epochs, every = int(every.amount), None
        self.every = every
        by_epoch = every_n_train_steps is None and train_time_interval is None and every is None
        self.every_n_epochs = every_n_epochs if every_n_epochs is not None else int(by_epoch)
        self.every_n_train_steps = every_n_train_steps or 0
        self.train_time_interval = train_time_interval
        self._began, self._clock = monotonic(), AgreedTime()
        self._multiples: Every | None = None
        self._on_train_epoch_end = on_train_epoch_end
        self.in_epoch = bool(self.every_n_train_steps or train_time_interval is not None or every)

    def __str__(self) -> str:
        if self.every_n_train_steps:
            return f"every {self.every_n_train_steps} optimizer steps"
        if self.train_time_interval is not None:
            return f"every {self.train_time_interval} of training"
        if self.every:
            return f"every {self.every}"
        if not self.every_n_epochs:
            return "never by itself"
        return "every epoch" if self.every_n_epochs == 1 else f"every {self.every_n_epochs} epochs"

    def start(self, trainer: TrainerAPI) -> None:
        """Begin to count and to measure the time between two saves."""
        self._measure()
        self._multiples = None if self.every is None else Every(self.every, trainer)

    def _measure(self) -> None:
        self._began, self._clock = monotonic(), AgreedTime()

    def due_after_batch(self, trainer: TrainerAPI) -> bool:
        """Return whether steps or time ask for a save after this batch; the same on all ranks."""
        due = self.every_n_train_steps >= 1 and trainer.global_step % self.every_n_train_steps == 0
        if self.train_time_interval is not None:
            left = self._began + self.train_time_interval.total_seconds() - monotonic()
            if self._clock.is_over(left, trainer):
                due = True
                self._measure()
        return due or (self._multiples is not None and self._multiples.is_due())

    def due_after_epoch(self, trainer: TrainerAPI) -> bool:
        """Return whether this epoch is one of those after which to save."""
        return self.every_n_epochs >= 1 and (trainer.current_epoch + 1) % self.every_n_epochs == 0

    def on_train_epoch_end(self, trainer: TrainerAPI) -> bool:
        """Return whether the moment is the epoch's end: True; or validation's: False."""
        if not sum(trainer.num_val_batches):  # there is no other moment
            return True
        if self._on_train_epoch_end is not None:
            return self._on_train_epoch_end
        return trainer.check_val_every_n_epoch == 1 and trainer.val_check_interval == 1.0


def _check(
    every_n_train_steps: int | None,
    every_n_epochs: int | None,
    train_time_interval: timedelta | None,
    every: Duration | None,
) -> None:
    for name, count in (("every_n_train_steps", every_n_train_steps), ("every_n_epochs", every_n_epochs)):
        if count is not None:
            whole("ModelCheckpoint", name, count, 0, "0 for never")
    given = {
        "every_n_train_steps": every_n_train_steps,
        "every_n_epochs": every_n_epochs,
        "train_time_interval": train_time_interval,
        "every": None if every is None else str(every),
    }
    asked = [f"{name}={value!r}" for name, value in given.items() if value or isinstance(value, timedelta)]
    if len(asked) > 1:
        raise ConfigError(
            f"ModelCheckpoint({', '.join(asked)}): expected one of them. Add a second ModelCheckpoint for the other.",
            code="LT178",
        )
