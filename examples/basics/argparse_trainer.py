"""The Trainer's arguments on the command line, in the way of 1.x: ``Trainer.add_argparse_args``.

Try ``uv run examples/basics/argparse_trainer.py --max_epochs 3 --hidden 64``; old spellings such as ``--gpus 0`` are
understood too. Both methods print one deprecation note each: new projects take ``lt.cli.LightningCLI``.
"""

# nox: --max_epochs 1 --limit_train_batches 10

from __future__ import annotations

from argparse import ArgumentParser

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl


class LitDigits(pl.LightningModule):
    """One hidden layer on 64 pixels, with flags of its own."""

    def __init__(self, hidden: int, learning_rate: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))

    @staticmethod
    def add_model_specific_args(parent_parser: ArgumentParser) -> ArgumentParser:
        """Add the model's flags to a parser and return it."""
        group = parent_parser.add_argument_group("LitDigits")
        group.add_argument("--hidden", type=int, default=128, help="size of the hidden layer")
        group.add_argument("--learning_rate", type=float, default=1e-3)
        return parent_parser

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        pixels, digits = batch
        return nn.functional.cross_entropy(self.layers(pixels), digits)

    def test_step(self, batch: list[Tensor], batch_idx: int) -> None:
        pixels, digits = batch
        self.log("test_acc", (self.layers(pixels).argmax(dim=1) == digits).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams.learning_rate)


def main() -> None:
    """Read the command line, train and test."""
    parser = ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=32)
    parser = LitDigits.add_model_specific_args(parser)
    parser = pl.Trainer.add_argparse_args(parser)
    parser.set_defaults(max_epochs=5)
    args = parser.parse_args()

    pl.seed_everything(42)
    bunch = load_digits()
    pixels, digits = torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target)
    train, test = TensorDataset(pixels[450:], digits[450:]), TensorDataset(pixels[:450], digits[:450])
    model = LitDigits(args.hidden, args.learning_rate)
    trainer = pl.Trainer.from_argparse_args(args, logger=False, enable_checkpointing=False)
    trainer.fit(model, DataLoader(train, batch_size=args.batch_size, shuffle=True))
    (metrics,) = trainer.test(model, DataLoader(test, batch_size=450), verbose=False)
    trainer.print(f"{trainer.current_epoch} epochs, {trainer.global_step} steps: accuracy {metrics['test_acc']:.1%}")


if __name__ == "__main__":
    main()
