"""Checkpoints written here and uploaded in the background; one is kept here, three there.

The remote folder is one on this machine by default; ``--url s3://bucket/run`` takes a bucket (with ``s3fs``).
"""

# nox: --max-epochs 5

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.callbacks import ModelCheckpoint
from lt.plugins import UploadingCheckpointIO


class Line(pl.LightningModule):
    """Learns a line."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        return nn.functional.mse_loss(self.layer(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-epochs", type=int, default=10)
    parser.add_argument("--url", default=f"file://{Path('remote').resolve()}")
    flags = parser.parse_args()
    pl.seed_everything(0)
    x = torch.linspace(0, 1, 64).unsqueeze(1)
    uploads = UploadingCheckpointIO(flags.url, keep=3)
    trainer = pl.Trainer(
        max_epochs=flags.max_epochs,
        accelerator="cpu",
        plugins=uploads,
        callbacks=ModelCheckpoint("here", save_last=True),
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Line(), DataLoader(TensorDataset(x, 2 * x + 1), batch_size=8, shuffle=True))
    print("here:", sorted(path.name for path in Path("here").iterdir()))
    if Path("remote").is_dir():
        print("there:", sorted(path.name for path in Path("remote").iterdir()))
    print("not uploaded:", uploads.upload_errors or "nothing")
