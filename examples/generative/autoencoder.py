"""An autoencoder that learns without labels, and a linear classifier on its frozen features.

The encoder comes from the autoencoder's best checkpoint; the two models share nothing else.
"""

# nox: --max-epochs 3

from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import lt as pl


class LitAutoEncoder(pl.LightningModule):
    """Two linear layers encode 64 pixels, two decode them."""

    def __init__(self, hidden: int = 128, features: int = 16, learning_rate: float = 1e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, features))
        self.decoder = nn.Sequential(nn.ReLU(), nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, 64))

    def forward(self, pixels: Tensor) -> Tensor:
        """Return features, shape ``(batch, features)``, of pixels of shape ``(batch, 64)``."""
        return self.encoder(pixels)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self._error(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val_loss", self._error(batch), prog_bar=True)

    def _error(self, batch: list[Tensor]) -> Tensor:
        pixels, _ = batch  # the labels are not looked at
        return nn.functional.mse_loss(self.decoder(self(pixels)), pixels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams.learning_rate)


class LitOnFeatures(pl.LightningModule):
    """One linear layer on the features of a frozen encoder."""

    def __init__(self, encoder: LitAutoEncoder, learning_rate: float = 1e-2) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.encoder = encoder
        self.encoder.freeze()
        self.head = nn.Linear(encoder.hparams.features, 10)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        pixels, digits = batch
        return nn.functional.cross_entropy(self.head(self.encoder(pixels)), digits)

    def test_step(self, batch: list[Tensor], batch_idx: int) -> None:
        pixels, digits = batch
        self.log("test_acc", (self.head(self.encoder(pixels)).argmax(dim=1) == digits).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.head.parameters(), lr=self.learning_rate)


def main() -> None:
    """Train the autoencoder without labels, then a linear classifier on its features."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-epochs", type=int, default=10)
    args = parser.parse_args()

    pl.seed_everything(42)
    bunch = load_digits()
    pairs = TensorDataset(torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target))
    train, held_out = random_split(pairs, [0.8, 0.2])
    loader, held_out_loader = DataLoader(train, batch_size=32, shuffle=True), DataLoader(held_out, batch_size=256)

    trainer = pl.Trainer(max_epochs=args.max_epochs, log_every_n_steps=10)
    trainer.fit(LitAutoEncoder(), loader, held_out_loader)
    path = trainer.checkpoint_callback.best_model_path
    encoder = LitAutoEncoder.load_from_checkpoint(path)

    probe = pl.Trainer(max_epochs=args.max_epochs, logger=False, enable_checkpointing=False)
    probe.fit(LitOnFeatures(encoder), loader)
    (metrics,) = probe.test(dataloaders=held_out_loader, verbose=False)
    print(f"Autoencoder: {path}, validation error {float(trainer.callback_metrics['val_loss']):.3f}")
    print(f"Linear classifier on its {encoder.hparams.features} features: test accuracy {metrics['test_acc']:.1%}")


if __name__ == "__main__":
    main()
