"""Linear layers that multiply in 8 bits, by torchao: ``precision="float8"`` or ``"int8"``, beside bfloat16.

On a GPU it is for speed, which was not measured here; on a CPU it shows that the loss falls nearly as far. Run it with
``uv run --group examples examples/basics/low_precision.py``.
"""

# nox needs torchao

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl


class Classifier(pl.LightningModule):
    """Two layers whose sizes are multiples of 16, as 8 bits need, and a last one that stays in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def losses(precision: str) -> list[float]:
    """Return the loss of each epoch."""
    pl.seed_everything(1)
    x = torch.randn(1024, 64)
    data = TensorDataset(x, x[:, :10].argmax(dim=1))
    trainer = pl.Trainer(
        accelerator="cpu",
        precision=precision,
        max_epochs=4,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    return trainer.fit(Classifier(), DataLoader(data, batch_size=64, shuffle=True)).history["loss"]


if __name__ == "__main__":
    warnings.filterwarnings("ignore", module="torchao")  # what torchao says of itself
    found = {precision: losses(precision) for precision in ("bf16-mixed", "float8", "int8")}
    for precision, values in found.items():
        print(f"{precision}: loss {values[0]:.3f} in the first epoch, {values[-1]:.3f} in the last")
    near = all(abs(values[-1] - found["bf16-mixed"][-1]) < 0.1 for values in found.values())
    print(f"8 bits end near bfloat16: {near}")
