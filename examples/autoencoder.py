"""An autoencoder as a child class of the classifier of ``digits.py``, then used as a feature extractor.

The child keeps the classifier's first layers as its encoder and learns without labels. A linear classifier is then
trained on the features of the frozen encoder, which is loaded from its checkpoint.
"""

# nox: --max-epochs 3

from __future__ import annotations

import argparse

import torch
from digits import DigitsData, LitDigits
from torch import Tensor, nn

import lt as pl


class LitAutoEncoder(LitDigits):
    """The classifier's layers up to the second linear one encode; new ones decode. Nothing else is written again."""

    def __init__(self, hidden: tuple[int, int] = (128, 16), learning_rate: float = 1e-3) -> None:
        super().__init__(hidden, learning_rate)
        self.layers = self.layers[:4]
        self.decoder = nn.Sequential(
            nn.ReLU(),
            nn.Linear(hidden[1], hidden[0]),
            nn.ReLU(),
            nn.Linear(hidden[0], 28 * 28),
            nn.Unflatten(1, (1, 28, 28)),
        )

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        loss = self._reconstruction_error(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def _evaluate(self, batch: tuple[Tensor, Tensor], stage: str) -> None:
        self.log(f"{stage}_loss", self._reconstruction_error(batch), prog_bar=True)

    def _reconstruction_error(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Return the mean squared error; the labels are not looked at."""
        images, _ = batch
        return nn.functional.mse_loss(self.decoder(self(images)), images)


class LitOnFeatures(LitDigits):
    """One linear layer on the features of a frozen encoder; steps and metrics are the classifier's."""

    def __init__(self, encoder: LitAutoEncoder, learning_rate: float = 1e-2) -> None:
        super().__init__(learning_rate=learning_rate)
        encoder.freeze()
        self.encoder = encoder
        self.layers = nn.Sequential(nn.Linear(encoder.hparams.hidden[1], 10), nn.LogSoftmax(dim=1))

    def forward(self, images: Tensor) -> Tensor:
        self.encoder.eval()
        return self.layers(self.encoder(images))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.layers.parameters(), lr=self.hparams.learning_rate)


def main() -> None:
    """Train the autoencoder without labels, then a linear classifier on its features."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-epochs", type=int, default=10)
    args = parser.parse_args()

    pl.seed_everything(42)
    data = DigitsData()
    trainer = pl.Trainer(max_epochs=args.max_epochs, log_every_n_steps=10)
    trainer.fit(LitAutoEncoder(), datamodule=data)
    path = trainer.checkpoint_callback.best_model_path

    encoder = LitAutoEncoder.load_from_checkpoint(path)
    probe = pl.Trainer(max_epochs=args.max_epochs, logger=False, enable_checkpointing=False)
    probe.fit(LitOnFeatures(encoder), datamodule=data)
    (metrics,) = probe.test(datamodule=data, verbose=False)

    print(f"Autoencoder: {path}, validation error {float(trainer.callback_metrics['val_loss']):.3f}")
    print(f"Linear classifier on its {encoder.hparams.hidden[1]} features: test accuracy {metrics['test_acc']:.1%}")


if __name__ == "__main__":
    main()
