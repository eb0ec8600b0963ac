"""How long and how often, as text: a fit of so many tokens that validates after every so many optimizer steps.

The learning rate falls by tokens too, so the schedule is the same on any number of devices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl


class Line(pl.LightningModule):
    """Learns a line, and notes the optimizer steps after which it is validated; a number stands for a token here."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.validated_at: list[int] = []

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        return nn.functional.mse_loss(self.layer(x), y)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.validated_at.append(self.trainer.global_step)

    def count_tokens(self, batch: list[Tensor]) -> int:
        return batch[0].numel()

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "1000 tokens"}}


if __name__ == "__main__":
    pl.seed_everything(7)
    x = torch.randn(1000, 1)
    data = TensorDataset(x, 2 * x + 1)
    trainer = pl.Trainer(
        max_time="2500 tokens",  # two epochs and a half; "2 epochs", "500 steps", "30 min" too
        val_check_interval="100 steps",  # a step is two batches of four here
        accumulate_grad_batches=2,
        num_sanity_val_steps=0,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    module = Line()
    trainer.fit(module, DataLoader(data, batch_size=4, shuffle=True), DataLoader(data, batch_size=1000))
    rate = trainer.optimizers[0].param_groups[0]["lr"]
    print(f"{trainer.stop_reason}, learning rate {rate}; validated at the steps {module.validated_at}")
