"""Hooks every n-th time and once, by ``when``; and an event of your own, by ``trainer.call``.

The module says when its loss no longer falls; a callback that knows the event lowers the learning rate.
"""

# nox: --max-epochs 8

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.callbacks import when


class Line(pl.LightningModule):
    """Learns a line, and says when it no longer gets better."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.lowest = float("inf")

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        loss = nn.functional.mse_loss(self.layer(x), y)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def on_train_epoch_end(self) -> None:
        loss = float(self.trainer.callback_metrics["loss"])
        if loss > 0.9 * self.lowest:
            self.trainer.call("on_plateau", loss)
        self.lowest = min(loss, self.lowest)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.9)


class LowerRate(pl.Callback):
    """Hears of the plateau."""

    def __init__(self) -> None:
        self.times = 0

    def on_plateau(self, trainer: pl.Trainer, pl_module: Line, loss: float) -> None:
        self.times += 1
        for group in trainer.optimizers[0].param_groups:
            group["lr"] *= 0.3
        trainer.print(f"epoch {trainer.current_epoch}: loss {loss:.4f} is a plateau, lr {group['lr']:.3f} from here on")


class Watch(pl.Callback):
    """Looks now and then."""

    @when(every=20)
    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Line, outputs: dict, batch: list, batch_idx: int
    ) -> None:
        trainer.print(f"batch {trainer.total_batches}: weight {pl_module.layer.weight.item():.3f}")

    @when(once=1)
    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Line) -> None:
        trainer.print("the first epoch is done")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-epochs", type=int, default=20)
    flags = parser.parse_args()
    pl.seed_everything(0)
    x = torch.linspace(-1, 1, 64).unsqueeze(1)
    loader = DataLoader(TensorDataset(x, 2 * x + torch.randn(64, 1) * 0.3), batch_size=8, shuffle=True)
    lowers = LowerRate()
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    pl.Trainer(max_epochs=flags.max_epochs, accelerator="cpu", callbacks=[Watch(), lowers], **quiet).fit(Line(), loader)
    print("the learning rate was lowered:", lowers.times > 0)
