"""Batches of 128 where memory suffices for 20: ``accumulate_grad_batches="auto"`` cuts them; the weights are the same.

The want of memory is played, so that it runs anywhere; on a GPU CUDA raises the error by itself.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl


class Digits(pl.LightningModule[list[Tensor]]):
    """A classifier; ``room`` is for how many samples its memory suffices."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.room = room

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        """Return the loss, where there is memory."""
        images, digits = batch
        if len(images) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. (played)")
        loss = nn.functional.cross_entropy(self.layers(images), digits)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Train with SGD."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


def train(room: int) -> tuple[list[Tensor], float]:
    """Train for two epochs; return weights and loss."""
    pl.seed_everything(7)
    bunch = load_digits()
    data = TensorDataset(torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target))
    trainer = pl.Trainer(max_epochs=2, accelerator="cpu", accumulate_grad_batches="auto", enable_model_summary=False)
    module = Digits(room)
    trainer.fit(module, DataLoader(data, batch_size=128, shuffle=True))
    return list(module.parameters()), trainer.callback_metrics["loss"].item()


if __name__ == "__main__":
    (cut, loss), (whole, expected) = train(room=20), train(room=128)
    print(f"loss {loss:.5f}, of whole batches {expected:.5f}")
    print(f"the same weights, but for rounding: {all(map(torch.allclose, cut, whole))}")
