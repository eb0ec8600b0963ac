"""The model of the project."""

from typing import Any

import lightning as L
import torch
from lightning.pytorch.utilities import grad_norm
from lightning.pytorch.utilities.types import STEP_OUTPUT, OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional as F


class Classifier(L.LightningModule):
    """Three clouds in the plane.

    Args:
        hidden: width of the hidden layer.
        lr: highest learning rate.
    """

    def __init__(self, hidden: int = 16, lr: float = 0.1) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, 3))
        self.validation_outputs: list[Tensor] = []
        self.example_input_array = torch.zeros(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def training_step(self, batch: Any, batch_idx: int) -> STEP_OUTPUT:
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train/loss", loss, on_step=True, on_epoch=True, prog_bar=True, sync_dist=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        x, y = batch
        logits = self(x)
        self.log("val/loss", F.cross_entropy(logits, y), prog_bar=True, sync_dist=True)
        self.validation_outputs.append((logits.argmax(1) == y).float())

    def on_validation_epoch_end(self) -> None:
        correct = torch.cat(self.validation_outputs)
        self.log("val/acc", correct.mean(), sync_dist=True)
        self.validation_outputs.clear()

    def test_step(self, batch: Any, batch_idx: int) -> None:
        x, y = batch
        self.log("test/acc", (self(x).argmax(1) == y).float().mean(), sync_dist=True)

    def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        return self(batch[0]).argmax(1)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.log_dict(grad_norm(self, norm_type=2))

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.01)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=self.hparams.lr, total_steps=int(self.trainer.estimated_stepping_batches)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}
