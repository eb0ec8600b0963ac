"""A GAN of handwritten digits: two optimizers, each with a loss of its own.

In automatic mode ``configure_optimizers`` names the optimizers, and ``training_step`` returns a loss for each name;
gradients of a loss reach only the parameters of its optimizer. ``--manual`` does the same by hand.
"""

# nox: --max-epochs 2
# nox: --max-epochs 2 --manual

from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl

LATENT = 32


class LitGAN(pl.LightningModule):
    """Generator and discriminator of three linear layers each; images have values from 0 to 1."""

    def __init__(self, learning_rate: float = 1e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.generator = nn.Sequential(
            nn.Linear(LATENT, 128),
            nn.LeakyReLU(0.2),
            nn.Linear(128, 256),
            nn.LeakyReLU(0.2),
            nn.Linear(256, 8 * 8),
            nn.Sigmoid(),
            nn.Unflatten(1, (1, 8, 8)),
        )
        self.discriminator = nn.Sequential(
            nn.Flatten(),
            nn.Linear(8 * 8, 256),
            nn.LeakyReLU(0.2),
            nn.Linear(256, 128),
            nn.LeakyReLU(0.2),
            nn.Linear(128, 1),
        )

    def forward(self, noise: Tensor) -> Tensor:
        """Return images, shape ``(batch, 1, 8, 8)``, made from noise of shape ``(batch, LATENT)``."""
        return self.generator(noise)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> dict[str, Tensor]:
        real, _ = batch
        fake = self(torch.randn(len(real), LATENT, device=self.device))
        losses = {"gen": self.generator_loss(fake), "disc": self.discriminator_loss(real, fake.detach())}
        self.log_dict({f"{name}_loss": loss for name, loss in losses.items()}, prog_bar=True)
        return losses

    def generator_loss(self, fake: Tensor) -> Tensor:
        """Return how well the discriminator sees through the fakes."""
        return self._error(fake, 1.0)

    def discriminator_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        """Return how badly real images and fakes are told apart; 0.9 keeps the discriminator from being too sure."""
        return (self._error(real, 0.9) + self._error(fake, 0.0)) / 2

    def _error(self, images: Tensor, truth: float) -> Tensor:
        scores = self.discriminator(images)
        return nn.functional.binary_cross_entropy_with_logits(scores, torch.full_like(scores, truth))

    def configure_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        settings = {"lr": self.hparams.learning_rate, "betas": (0.5, 0.999)}
        return {
            "gen": torch.optim.Adam(self.generator.parameters(), **settings),
            "disc": torch.optim.Adam(self.discriminator.parameters(), **settings),
        }


class ManualGAN(LitGAN):
    """The same with every step written out; here the discriminator moves before the generator's loss is computed."""

    def __init__(self, learning_rate: float = 1e-3) -> None:
        super().__init__(learning_rate)
        self.automatic_optimization = False

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        real, _ = batch
        gen, disc = self.optimizers()
        fake = self(torch.randn(len(real), LATENT, device=self.device))

        disc_loss = self.discriminator_loss(real, fake.detach())
        disc.zero_grad()
        self.manual_backward(disc_loss)
        disc.step()

        with self.toggled_optimizer(gen):  # no gradients for the discriminator meanwhile
            gen_loss = self.generator_loss(fake)
            gen.zero_grad()
            self.manual_backward(gen_loss)
            gen.step()
        self.log_dict({"gen_loss": gen_loss, "disc_loss": disc_loss}, prog_bar=True)


def digits() -> TensorDataset:
    """Return scikit-learn's 1797 handwritten digits, shape ``(1, 8, 8)``, values from 0 to 1, with their labels."""
    bunch = load_digits()
    return TensorDataset(torch.from_numpy(bunch.images).float().div(16).unsqueeze(1), torch.from_numpy(bunch.target))


def draw(image: Tensor) -> str:
    """Return an image of shape ``(1, 8, 8)`` with values from 0 to 1 as text."""
    shades = " .:-=+*#%@"
    rows = (image[0].repeat_interleave(2, dim=1) * (len(shades) - 1)).round().int().tolist()
    return "\n".join("".join(shades[value] for value in row) for row in rows)


def main() -> None:
    """Train, and draw two images that the generator makes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--manual", action="store_true", help="optimize by hand")
    parser.add_argument("--max-epochs", type=int, default=20)
    args = parser.parse_args()

    pl.seed_everything(42)
    model = ManualGAN() if args.manual else LitGAN()
    trainer = pl.Trainer(max_epochs=args.max_epochs, logger=False, enable_checkpointing=False)
    trainer.fit(model, DataLoader(digits(), batch_size=32, shuffle=True))
    with torch.no_grad():
        images = model(torch.randn(2, LATENT, device=model.device))
    for image in images:
        trainer.print(draw(image))
    trainer.print(f"Two images by the generator, after {trainer.global_step} optimizer steps")


if __name__ == "__main__":
    main()
