"""A signal in the middle of a validation: the resume goes on with the next batch, and repeats none.

Here the process sends it to itself; on a cluster the scheduler does. The script
goes on, by ``trainer.on_signal = "return"``.
"""

# nox:

from __future__ import annotations

import os
import signal

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl


class Line(pl.LightningModule):
    """A line that counts its validation batches, and is interrupted in one.

    Args:
        interrupted_at: batch of the first validation in which the signal comes; -1 for never.
    """

    def __init__(self, interrupted_at: int = -1) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.interrupted_at, self.seen = interrupted_at, []

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        return nn.functional.mse_loss(self.layer(x), y)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.seen.append(batch_idx)
        self.log("val_loss", self.training_step(batch, batch_idx))
        if batch_idx == self.interrupted_at:
            os.kill(os.getpid(), signal.SIGTERM)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(module: Line, ckpt_path: str | None = None) -> pl.Trainer:
    """Train for an epoch; return the Trainer."""
    x = torch.linspace(0, 1, 64).unsqueeze(1)
    loader = DataLoader(TensorDataset(x, 2 * x + 1), batch_size=8)
    arguments = {"enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", **arguments)
    trainer.on_signal = "return"
    trainer.fit(module, loader, loader, ckpt_path=ckpt_path)
    return trainer


if __name__ == "__main__":
    pl.seed_everything(0)
    stopped = Line(interrupted_at=4)
    print("stopped by a signal:", fit(stopped).interrupted, "- validated", stopped.seen)
    resumed = Line()
    trainer = fit(resumed, ckpt_path="auto")
    print("resumed: validated", resumed.seen, f"- val_loss {trainer.callback_metrics['val_loss']:.6f}")
    pl.seed_everything(0)
    whole = fit(Line())
    print(f"without the signal: val_loss {whole.callback_metrics['val_loss']:.6f}")
