"""K-fold cross-validation: k fits on k parts of the data, and what their metrics say together.

Nothing of it is a special case of the Trainer: a fold is a datamodule that knows its number, and each fold gets a new
model and a new Trainer. Run it with ``uv run examples/tabular/kfold.py``; ``--help`` lists the flags.
"""

# nox: --max-epochs 2

from __future__ import annotations

import argparse
import math

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import lt as pl


class Classifier(pl.LightningModule):
    """One hidden layer on 64 pixels."""

    def __init__(self, hidden: int = 64, lr: float = 3e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        pixels, digits = batch
        return nn.functional.cross_entropy(self.layers(pixels), digits)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        pixels, digits = batch
        self.log("val_accuracy", (self.layers(pixels).argmax(dim=1) == digits).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


class Fold(pl.LightningDataModule):
    """The digits but for one part, which is for validation.

    Args:
        number: which part is held out, from 0 on.
        count: parts in all.
        seed: of the permutation from which the parts are cut; the same for all folds.
    """

    def __init__(self, number: int, count: int, seed: int = 0) -> None:
        super().__init__()
        self.number, self.count, self.seed = number, count, seed

    def setup(self, stage: str) -> None:
        bunch = load_digits()
        data = TensorDataset(torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target))
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(self.seed))
        parts = list(order.chunk(self.count))
        held_out = parts.pop(self.number)
        self.train, self.val = Subset(data, torch.cat(parts).tolist()), Subset(data, held_out.tolist())

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, batch_size=32, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, batch_size=256)


def main() -> None:
    """Train on each fold and print the accuracies, their mean and its standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--max-epochs", type=int, default=10)
    args = parser.parse_args()

    accuracies = []
    for number in range(args.folds):
        pl.seed_everything(number, verbose=False)
        trainer = pl.Trainer(
            max_epochs=args.max_epochs,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(Classifier(), datamodule=Fold(number, args.folds))
        accuracies.append(float(trainer.callback_metrics["val_accuracy"]))
        print(f"Fold {number}: accuracy {accuracies[-1]:.3f}")
    values = torch.tensor(accuracies)
    error = values.std().item() / math.sqrt(len(values))
    print(f"{args.folds} folds: accuracy {values.mean():.3f} ± {error:.3f} (standard error)")


if __name__ == "__main__":
    main()
