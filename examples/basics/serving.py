"""Does the module serve? Checked before training, by a callback, and of the trained module at the end.

The check exports it, has a fresh process load it that knows neither the class nor lt, and compares the outputs.
"""

# nox: --max-epochs 1

from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.callbacks import ServingCheck, check_serving


class Digits(pl.LightningModule):
    """Reads digits; what is served is ``forward``: the class and how sure it is."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.example_input_array = torch.zeros(8, 64)

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        sure, digit = self.layers(pixels).softmax(dim=1).max(dim=1)
        return {"digit": digit, "sure": sure}

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        pixels, digits = batch
        return nn.functional.cross_entropy(self.layers(pixels), digits)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-epochs", type=int, default=10)
    flags = parser.parse_args()
    pl.seed_everything(0)
    bunch = load_digits()
    pixels = torch.from_numpy(bunch.data).float() / 16
    module = Digits()
    trainer = pl.Trainer(max_epochs=flags.max_epochs, accelerator="cpu", callbacks=ServingCheck(), logger=False)
    trainer.fit(module, DataLoader(TensorDataset(pixels, torch.from_numpy(bunch.target)), batch_size=32, shuffle=True))
    any_number = ({0: torch.export.Dim("requests", min=1, max=64)},)
    print("trained, of any number of images:", check_serving(module, pixels[:8], dynamic_shapes=any_number))
