"""Activations computed again in the backward pass, with any strategy: less memory for a longer step, the same weights.

torch wraps the blocks that a rule names, before training, in the callback's ``setup``; ``FSDP`` has an argument of its
own for it, ``activation_checkpointing_policy={Block}``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.utils.data import DataLoader

import lt as pl
from lt_core import TrainerAPI


class Block(nn.Module):
    """Two layers with dropout, which is the same in both passes."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 64))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.net(x)


class Deep(pl.LightningModule):
    """Eight blocks; counts the bytes that a step keeps for its backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(8)))
        self.kept = 0

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        self.kept = 0
        with torch.autograd.graph.saved_tensors_hooks(self.count, lambda tensor: tensor):
            return self.blocks(batch).square().mean()

    def count(self, tensor: Tensor) -> Tensor:
        self.kept += tensor.nbytes
        return tensor

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Recompute(pl.Callback):
    """Has every Block computed again; weights keep their names in checkpoints."""

    def setup(self, trainer: TrainerAPI, pl_module: pl.LightningModule, stage: str) -> None:
        if stage == "fit":
            apply_activation_checkpointing(pl_module, check_fn=lambda module: isinstance(module, Block))


def fit(callbacks: list[pl.Callback]) -> Deep:
    """Train on the same numbers."""
    pl.seed_everything(5)
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        callbacks=callbacks,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = Deep()
    trainer.fit(module, DataLoader(torch.randn(128, 64), batch_size=32))
    return module


if __name__ == "__main__":
    plain, again = fit([]), fit([Recompute()])
    print(f"Kept for the backward pass: {plain.kept:,} bytes, and {again.kept:,} with blocks computed again")
    there, here = plain.state_dict(), again.state_dict()
    same = there.keys() == here.keys() and all(torch.equal(there[name], here[name]) for name in there)
    print(f"The same names and weights, bit for bit: {same}")
