"""An optimizer without a schedule (schedulefree's AdamW), whose averaged weights are validated and saved.

Defazio et al., "The Road Less Scheduled", https://arxiv.org/abs/2405.15682. The optimizer keeps two sets of weights and
is told which ones are wanted by its ``train()`` and ``eval()``: the callback ``ScheduleFree`` calls them. Beside it
AdamW with a cosine, which must know the length of the run. Run it with ``uv run --group examples
examples/basics/schedule_free.py``.
"""

# nox needs schedulefree
# nox: --max-epochs 2

from __future__ import annotations

import argparse

import schedulefree
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import lt as pl
from lt.callbacks import ScheduleFree
from lt.recipes import schedule


class Digits(pl.LightningModule):
    """A small network that reads digits of 8 times 8 pixels."""

    def __init__(self, schedule_free: bool, lr: float = 3e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        pixels, digits = batch
        return nn.functional.cross_entropy(self.net(pixels), digits)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        pixels, digits = batch
        self.log("val_loss", nn.functional.cross_entropy(self.net(pixels), digits), prog_bar=True)

    def configure_optimizers(self) -> object:
        steps = self.trainer.estimated_stepping_batches
        if self.hparams.schedule_free:
            return schedulefree.AdamWScheduleFree(self.parameters(), lr=self.hparams.lr, warmup_steps=20)
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return {"optimizer": optimizer, "lr_scheduler": schedule(optimizer, "cosine", steps, warmup=20)}


def main() -> None:
    """Train with both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-epochs", type=int, default=10)
    args = parser.parse_args()

    pixels, digits = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits))
    train, val = random_split(data, [1500, len(data) - 1500], generator=torch.Generator().manual_seed(0))
    for schedule_free in (False, True):
        pl.seed_everything(42)
        callbacks = [ScheduleFree()] if schedule_free else []
        trainer = pl.Trainer(max_epochs=args.max_epochs, callbacks=callbacks, logger=False, enable_checkpointing=False)
        trainer.fit(Digits(schedule_free), DataLoader(train, 32, shuffle=True), DataLoader(val, 99))
        name = "without a schedule" if schedule_free else "with a cosine"
        print(f"{name}: val_loss {trainer.callback_metrics['val_loss']:.3f}")


if __name__ == "__main__":
    main()
