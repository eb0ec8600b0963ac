"""The steps at which a callback sends a row to the loggers."""

from __future__ import annotations

from lt_core.duration import Duration, Every
from lt_core.trainer import TrainerAPI

__all__ = ["LoggedSteps"]


class LoggedSteps:
    """Goes by ``Trainer(log_every_n_steps=)``: every n-th optimizer step, or at each multiple of a duration."""

    def __init__(self) -> None:
        self._multiples: Every | None = None
        self._last = -1.0

    def is_due(self, trainer: TrainerAPI, *, coming: bool = False) -> bool:
        """Return whether there is a row, once for each step; ``coming``: for the step to come. All ranks ask alike."""
        every, step = trainer.log_every_n_steps, trainer.elapsed("steps") + coming
        if isinstance(every, Duration):
            if self._multiples is None or not self._multiples.belongs_to(trainer):
                self._multiples = Every(every, trainer)
            return self._multiples.is_due()
        due = bool(every and step) and step % every == 0 and step != self._last
        self._last = step if due else self._last
        return due
