"""Callbacks of the project."""

from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import BasePredictionWriter


class Counter(Callback):
    """Counts batches, also over a resume."""

    def __init__(self) -> None:
        self.batches = 0

    @property
    def state_key(self) -> str:
        return "counter"

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.batches += 1

    def state_dict(self) -> dict[str, Any]:
        return {"batches": self.batches}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.batches = state_dict["batches"]


class Writer(BasePredictionWriter):
    """Writes each process's predictions with the samples that they are of.

    Args:
        folder: where to.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(write_interval="epoch")
        self.folder = Path(folder)

    def write_on_epoch_end(
        self, trainer: Trainer, pl_module: LightningModule, predictions: Any, batch_indices: Any
    ) -> None:
        torch.save((predictions, batch_indices), self.folder / f"predictions-{trainer.global_rank}.pt")
