"""Writes predictions as they come, or at the end."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from lt_callbacks.arguments import choice
from lt_core.callback import Callback
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["BasePredictionWriter", "WriteInterval"]


class WriteInterval(StrEnum):
    """When predictions are written."""

    BATCH = "batch"
    EPOCH = "epoch"
    BATCH_AND_EPOCH = "batch_and_epoch"

    @property
    def on_batch(self) -> bool:
        """Whether each batch's predictions are written when they come."""
        return self is not WriteInterval.EPOCH

    @property
    def on_epoch(self) -> bool:
        """Whether all predictions are written at the end."""
        return self is not WriteInterval.BATCH


class BasePredictionWriter(Callback):
    """Base of callbacks that write predictions: override ``write_on_batch_end`` or ``write_on_epoch_end`` or both.

    They are called on every rank with that rank's predictions. ``batch_indices`` are the positions of the samples in
    the data set, by which the ranks' files can be joined; None where the loader does not know them. With
    ``"epoch"`` this rank's predictions are kept until the end; ``trainer.predict(return_predictions=False)`` keeps them
    out of memory otherwise.

    Args:
        write_interval: ``"batch"``, ``"epoch"`` or ``"batch_and_epoch"``.

    Raises:
        ConfigError: for another interval.
    """

    def __init__(self, write_interval: str = "batch") -> None:
        self.interval = WriteInterval(choice(type(self).__name__, "write_interval", write_interval, (*WriteInterval,)))
        self._lt_predictions: list[list[Any]] = []
        self._lt_indices: list[list[Sequence[int] | None]] = []

    def write_on_batch_end(
        self,
        trainer: TrainerAPI,
        pl_module: LightningModule,
        prediction: Any,
        batch_indices: Sequence[int] | None,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        """Write the prediction of one batch."""
        raise NotImplementedError(f"{type(self).__name__}.write_on_batch_end is not defined")

    def write_on_epoch_end(
        self,
        trainer: TrainerAPI,
        pl_module: LightningModule,
        predictions: Sequence[Any],
        batch_indices: Sequence[Any] | None,
    ) -> None:
        """Write all predictions: a list by batch for one loader, a list of such lists for several.

        ``batch_indices`` has a list by batch for each loader, also for one: ``batch_indices[0]`` goes with
        ``predictions`` there.
        """
        raise NotImplementedError(f"{type(self).__name__}.write_on_epoch_end is not defined")

    def on_predict_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_predictions = [[] for _ in trainer.num_predict_batches]
        self._lt_indices = [[] for _ in trainer.num_predict_batches]

    def on_predict_batch_end(
        self,
        trainer: TrainerAPI,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        indices = trainer.predict_indices(dataloader_idx)
        if self.interval.on_batch:
            self.write_on_batch_end(trainer, pl_module, outputs, indices, batch, batch_idx, dataloader_idx)
        if self.interval.on_epoch:
            self._lt_predictions[dataloader_idx].append(outputs)
            self._lt_indices[dataloader_idx].append(indices)

    def on_predict_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        predictions, indices = self._lt_predictions, self._lt_indices
        self._lt_predictions, self._lt_indices = [], []
        if not self.interval.on_epoch:
            return
        known = any(one is not None for loader in indices for one in loader)
        written = predictions[0] if len(predictions) == 1 else predictions
        self.write_on_epoch_end(trainer, pl_module, written, indices if known else None)
