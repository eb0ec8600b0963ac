"""What an out-of-memory error says: what holds the memory of that rank, and what to try.

A CPU has no such error, so that a layer raises it here; on a GPU torch does, and the message has its figures too.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import lt as pl


class Big(pl.LightningModule):
    """A million weights, and memory for 8 samples at most."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1000, 1000)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        if len(batch) > 8 and batch_idx:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return self.layer(batch).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters())


def fit(accumulate: int | Literal["auto"]) -> pl.Trainer:
    """Train on two batches of 32."""
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        accumulate_grad_batches=accumulate,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Big(), DataLoader(torch.randn(64, 1000), batch_size=32))
    return trainer


if __name__ == "__main__":
    try:
        fit(accumulate=1)
    except torch.OutOfMemoryError as error:
        print(error)
        print(*error.__notes__, sep="\n")
    trainer = fit(accumulate="auto")  # as it says: batches are split as far as the memory needs it
    print(f"With accumulate_grad_batches='auto': {trainer.global_step} optimizer steps of 32 samples")
