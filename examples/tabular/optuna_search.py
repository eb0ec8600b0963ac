"""A search for hyperparameters with Optuna; trials that lag behind are stopped early.

``OptunaPruning`` reports each validation, ends the fit where the trial is not worth going on, and raises what Optuna
expects. On several ranks, rank 0 asks Optuna and all end together.
Run it with ``uv run --group examples examples/tabular/optuna_search.py``.
"""

# nox needs optuna
# nox: --trials 4 --max-epochs 3

from __future__ import annotations

import argparse

import optuna
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.callbacks import OptunaPruning


class Classifier(pl.LightningModule):
    """One hidden layer on 64 pixels."""

    def __init__(self, hidden: int, lr: float, dropout: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 10))

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        pixels, digits = batch
        return nn.functional.cross_entropy(self.layers(pixels), digits)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        pixels, digits = batch
        self.log("val_accuracy", (self.layers(pixels).argmax(dim=1) == digits).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr, momentum=0.9)


def loaders() -> tuple[DataLoader, DataLoader]:
    """Return the digits: 1347 to train, 450 to validate."""
    bunch = load_digits()
    pixels, digits = torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target)
    train, val = TensorDataset(pixels[450:], digits[450:]), TensorDataset(pixels[:450], digits[:450])
    return DataLoader(train, batch_size=32, shuffle=True), DataLoader(val, batch_size=450)


def main() -> None:
    """Search, and print the trials and the best one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--max-epochs", type=int, default=10)
    args = parser.parse_args()
    train, val = loaders()

    def accuracy(trial: optuna.Trial) -> float:
        pl.seed_everything(trial.number, verbose=False)
        model = Classifier(
            hidden=trial.suggest_int("hidden", 8, 128, log=True),
            lr=trial.suggest_float("lr", 1e-4, 1.0, log=True),
            dropout=trial.suggest_float("dropout", 0.0, 0.5),
        )
        pruning = OptunaPruning(trial, "val_accuracy")
        trainer = pl.Trainer(
            max_epochs=args.max_epochs,
            callbacks=[pruning],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(model, train, val)
        return pruning.reports[-1]

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=2),
    )
    study.optimize(accuracy, n_trials=args.trials)
    for trial in study.trials:
        print(f"Trial {trial.number}: {trial.state.name.lower()}, accuracy {trial.value or 0:.3f}, {trial.params}")
    print(f"Best: trial {study.best_trial.number} with accuracy {study.best_value:.3f}")


if __name__ == "__main__":
    main()
