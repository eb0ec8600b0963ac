"""Metrics without files: JSON lines for a server that collects what programs print, columns for a notebook or a test.

Run it with ``uv run examples/basics/loggers.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.loggers import MemoryLogger, StdoutLogger


class Line(pl.LightningModule):
    """A linear fit."""

    def __init__(self, lr: float = 0.05) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Linear(4, 1)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    pl.seed_everything(1)
    x = torch.randn(256, 4)
    data = DataLoader(TensorDataset(x, x.sum(dim=1, keepdim=True)), batch_size=16)
    memory = MemoryLogger()
    trainer = pl.Trainer(
        logger=[StdoutLogger(timestamps=True), memory],
        max_epochs=4,
        log_every_n_steps=8,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Line(), data)
    columns = memory.columns  # pandas.DataFrame(columns) is a table of them
    lowest = min(range(len(memory.rows)), key=columns["loss"].__getitem__)
    print(f"The lowest loss stands at step {columns['step'][lowest]}: {columns['loss'][lowest]:.4f}")
