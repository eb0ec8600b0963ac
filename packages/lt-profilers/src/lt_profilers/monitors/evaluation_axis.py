"""The rows of an evaluation: which batches have one, and where it stands on the x axis."""

from __future__ import annotations

from lt_core.trainer import TrainerAPI


class EvaluationAxis:
    """Numbers the batches of all validations of a fit, or of one call, for the x axis of their rows.

    Attributes:
        in_fit: batches of the fit's validations so far; a resume goes on from there.
    """

    def __init__(self) -> None:
        self.in_fit = self._in_call = 0

    def begin(self) -> None:
        self._in_call = 0

    def next(self, trainer: TrainerAPI) -> int:
        """Count a batch; return its number, from 0."""
        if trainer.stage == "fit":
            self.in_fit += 1
            return self.in_fit - 1
        self._in_call += 1
        return self._in_call - 1


def in_evaluation(trainer: TrainerAPI, batches: int) -> bool:
    """Return whether there is a row after so many batches of an evaluation; none where a duration counts."""
    return isinstance(every := trainer.log_every_n_steps, int) and every > 0 and batches % every == 0
