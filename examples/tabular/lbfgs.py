"""LBFGS: an optimizer that calls the training step several times for each of its own steps.

Nothing has to be written for that: lt hands ``training_step`` and its backward to the optimizer as a closure.
The model is a logistic regression on scikit-learn's digits, whose whole training set is one batch.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl


class LitRegression(pl.LightningModule):
    """Logistic regression: 8x8 pixels to 10 digits, with a penalty on large weights."""

    def __init__(self, penalty: float = 1e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = nn.Linear(64, 10)
        self.calls = 0

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        self.calls += 1
        pixels, digits = batch
        loss = nn.functional.cross_entropy(self.layer(pixels), digits)
        loss = loss + self.hparams.penalty * self.layer.weight.square().sum()
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        pixels, digits = batch
        self.log("val_acc", (self.layer(pixels).argmax(dim=1) == digits).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.LBFGS(self.parameters(), max_iter=10, line_search_fn="strong_wolfe")


def loaders() -> tuple[DataLoader, DataLoader]:
    """Return loaders of one batch each, for training (1347 digits) and validation (450)."""
    bunch = load_digits()
    pixels, digits = torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target)
    train = TensorDataset(pixels[450:], digits[450:])
    return DataLoader(train, batch_size=len(train)), DataLoader(TensorDataset(pixels[:450], digits[:450]), 450)


def main() -> None:
    """Train for ten steps of the optimizer."""
    pl.seed_everything(42)
    model = LitRegression()
    trainer = pl.Trainer(max_epochs=10, logger=False, enable_checkpointing=False)
    trainer.fit(model, *loaders())
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    print(f"{trainer.global_step} optimizer steps called training_step {model.calls} times")
    print(f"loss {metrics['train_loss']:.4f}, validation accuracy {metrics['val_acc']:.1%}")


if __name__ == "__main__":
    main()
