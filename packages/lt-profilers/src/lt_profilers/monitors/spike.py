"""Finds batches at which the loss jumps."""

from __future__ import annotations

import json
import math
import os
from collections import deque
from pathlib import Path
from typing import Any

from lt_callbacks.arguments import choice, whole
from lt_callbacks.monitored import loss_of, on_any_rank
from lt_core.arguments import checks_arguments
from lt_core.callback import Callback
from lt_core.errors import ConfigError, LtError, recording
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["SpikeDetection", "TrainingSpikeException"]


class TrainingSpikeException(LtError, RuntimeError):  # noqa: N818  (Lightning's name)
    """The loss jumped.

    Args:
        message: for the user.
        batch_idx: the batch at which it did.
    """

    def __init__(self, message: str, batch_idx: int = -1, *, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.batch_idx = batch_idx


class SpikeDetection(Callback):
    """Ends training when the loss jumps far from its running mean, and records which batches to leave out.

    The numbers of the batch and of the one before go to a file; a run that starts again can skip them. It reads the
    loss at every step, and so waits for the device at every step; several ranks agree at every step. With ``atol`` and
    ``rtol`` a loss must be as far as both say.

    Args:
        mode: ``"min"``: a spike is a loss above the mean; ``"max"``: below.
        window: batches in the running mean.
        warmup: batches at the start of an epoch that are no spikes.
        atol: least distance of a spike from the mean; None: any.
        rtol: least distance as a share of the mean; None: any.
        exclude_batches_path: the ``.json`` file, or the folder for ``skip_batches.json``; default: the Trainer's root
            folder.
        finite_only: NaN and infinite losses are spikes too.

    Attributes:
        bad_batches: numbers of the batches to leave out.

    Raises:
        ConfigError: for wrong values.
        TrainingSpikeException: at a spike, on all ranks.
    """

    @checks_arguments
    def __init__(
        self,
        mode: str = "min",
        window: int = 10,
        warmup: int = 1,
        atol: float | None = None,
        rtol: float | None = 2.0,
        exclude_batches_path: str | os.PathLike[str] | None = None,
        finite_only: bool = True,
    ) -> None:
        self.mode = choice("SpikeDetection", "mode", mode, ("min", "max"))
        self.window = whole("SpikeDetection", "window", window, 1)
        self.warmup = whole("SpikeDetection", "warmup", warmup, 0)
        if atol is None and rtol is None:
            raise ConfigError(
                "SpikeDetection(atol=None, rtol=None) would call every step a spike. Give one.", code="LT178"
            )
        self.atol, self.rtol = atol, rtol
        self.exclude_batches_path = exclude_batches_path
        self.finite_only = finite_only
        self.bad_batches: list[int] = []
        self._lt_losses: deque[float] = deque(maxlen=window)

    def state_dict(self) -> dict[str, Any]:
        return {"losses": list(self._lt_losses), "bad_batches": list(self.bad_batches)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._lt_losses = deque(state_dict["losses"], maxlen=self.window)
        self.bad_batches = list(state_dict["bad_batches"])

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self.bad_batches = []
        self._lt_losses.clear()

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        tensor = loss_of(outputs)
        loss = float(tensor.detach()) if tensor is not None else None
        spike = loss is not None and batch_idx >= self.warmup and self._is_spike(loss)
        if on_any_rank(trainer, spike):
            self._lt_write_down(trainer, batch_idx)
            raise TrainingSpikeException(
                f"The loss jumped at batch {batch_idx} of epoch {trainer.current_epoch}"
                + (f": {loss:.5g} after a mean of {self._lt_mean():.5g}." if spike else " on another rank.")
                + f" Batches to leave out are in {self._lt_path(trainer)}.",
                batch_idx,
                code="LT352",
            )
        if loss is not None and math.isfinite(loss):
            self._lt_losses.append(loss)

    def _lt_mean(self) -> float:
        return sum(self._lt_losses) / len(self._lt_losses) if self._lt_losses else math.nan

    def _is_spike(self, loss: float) -> bool:
        if not math.isfinite(loss):
            return self.finite_only
        mean = self._lt_mean()
        worse = loss > mean if self.mode == "min" else loss < mean
        if math.isnan(mean) or not worse:
            return False
        distance = abs(loss - mean)
        return distance >= abs(self.atol or 0) and distance >= abs((self.rtol or 0) * mean)

    def _lt_write_down(self, trainer: TrainerAPI, batch_idx: int) -> None:
        self.bad_batches += [number for number in (batch_idx - 1, batch_idx) if number >= 0]
        if trainer.is_global_zero:
            path = self._lt_path(trainer)
            with recording(str(path)):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(self.bad_batches, indent=4), encoding="utf-8")

    def _lt_path(self, trainer: TrainerAPI) -> Path:
        given = self.exclude_batches_path
        path = Path(trainer.default_root_dir if given is None else given)
        return path if path.suffix == ".json" else path / "skip_batches.json"
