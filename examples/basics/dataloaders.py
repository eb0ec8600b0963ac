"""Dataloaders can be given in each of three places: to ``fit``, in the model, or in a data module.

All three trainings read the same batches from the same seed, and end with the same loss.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl


class LitLine(pl.LightningModule):
    """A straight line, fitted to points."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return self._loss(batch)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.log("val_loss", self._loss(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def _loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        return nn.functional.mse_loss(self.layer(x), y)


def points(count: int) -> TensorDataset:
    """Return points on the line ``y = 2 x + 1``, both of shape ``(count, 1)``."""
    x = torch.linspace(0, 1, count).unsqueeze(1)
    return TensorDataset(x, 2 * x + 1)


class LitLineWithData(LitLine):
    """Second place: the model's own hooks."""

    def train_dataloader(self) -> DataLoader:
        return DataLoader(points(256), batch_size=32, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(points(64), batch_size=64)


class Points(pl.LightningDataModule):
    """Third place: a data module, which can be used with any model."""

    def setup(self, stage: str) -> None:
        self.train, self.val = points(256), points(64)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, batch_size=32, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, batch_size=64)


def trainer() -> pl.Trainer:
    """Return a Trainer that prints nothing, after setting the seed for the model and the shuffle."""
    pl.seed_everything(42)
    return pl.Trainer(
        max_epochs=5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def main() -> None:
    """Train three times and compare."""
    losses = {}

    fit = trainer()
    train_loader = DataLoader(points(256), batch_size=32, shuffle=True)
    fit.fit(LitLine(), train_loader, DataLoader(points(64), batch_size=64))
    losses["given to fit"] = float(fit.callback_metrics["val_loss"])

    fit = trainer()
    fit.fit(LitLineWithData())
    losses["hooks of the model"] = float(fit.callback_metrics["val_loss"])

    fit = trainer()
    fit.fit(LitLine(), datamodule=Points())
    losses["data module"] = float(fit.callback_metrics["val_loss"])

    for place, loss in losses.items():
        print(f"{place:20} val_loss {loss:.6f}")
    print(f"All three are equal: {len(set(losses.values())) == 1}")


if __name__ == "__main__":
    main()
