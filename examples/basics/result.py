"""What ``fit`` returns: its metrics as columns, why it ended, where the checkpoints are.

A learning rate is chosen by what the fits return, without a logger and without a callback of one's own. The history
begins with the untrained module (``num_sanity_val_steps="logged"``); type checkers know what a batch is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl


class LitLine(pl.LightningModule[tuple[Tensor, Tensor]]):
    """A straight line, fitted to points."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.lr = lr

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        loss = self._loss(batch)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.log("val_loss", self._loss(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.lr)

    def _loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        return nn.functional.mse_loss(self.layer(x), y)


def fit(lr: float) -> pl.FitResult:
    """Return how a fit with this learning rate went."""
    pl.seed_everything(0)
    x = torch.linspace(0, 1, 64).unsqueeze(1)
    data = TensorDataset(x, 2 * x + 1)
    trainer = pl.Trainer(
        max_epochs=10,
        num_sanity_val_steps="logged",
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    return trainer.fit(LitLine(lr), DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=64))


def main() -> None:
    """Fit with three learning rates; print the history of the best one."""
    results = {lr: fit(lr) for lr in (0.003, 0.03, 0.3)}
    for lr, result in results.items():
        print(f"lr={lr}: {result}")
    best = min(results, key=lambda lr: results[lr].metrics["val_loss"])
    losses = ", ".join(f"{loss:.3f}" for loss in results[best].history["val_loss"])
    print(f"The best learning rate is {best}; its validation losses: {losses}")


if __name__ == "__main__":
    main()
