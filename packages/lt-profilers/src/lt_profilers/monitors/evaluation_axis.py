"""The rows of an evaluation: which batches have one, and where it stands on the x axis."""

from __future__ import annotations

from typing import Any

from lt_core.callback import Callback
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI


class EvaluationRows(Callback):
    """Base of callbacks that number the batches of all validations of a fit, or of one call, for the x axis of rows.

    The state holds the batches of the fit's validations so far; a resume goes on from there.
    """

    _lt_in_fit = _lt_in_call = 0

    def state_dict(self) -> dict[str, Any]:
        return {"validated": self._lt_in_fit}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._lt_in_fit = int(state_dict["validated"])

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self._lt_in_fit = self._lt_in_call = 0

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        self._lt_in_call = 0

    def _lt_next_row(self, trainer: TrainerAPI) -> int:
        """Count a batch; return its number, from 0."""
        if trainer.stage == "fit":
            self._lt_in_fit += 1
            return self._lt_in_fit - 1
        self._lt_in_call += 1
        return self._lt_in_call - 1


def in_evaluation(trainer: TrainerAPI, batches: int) -> bool:
    """Return whether there is a row after so many batches of an evaluation; none where a duration counts."""
    return isinstance(every := trainer.log_every_n_steps, int) and every > 0 and batches % every == 0
