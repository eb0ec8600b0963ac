"""Diffusion: digits out of noise, drawn while the model learns.

A small network learns to say which noise was added to an image (DDPM); images are made by taking that noise away in
many steps. Shown are weights averaged over the run, which make better images than the last ones, and pictures logged to
TensorBoard after every few epochs. Run it with ``uv run examples/generative/diffusion.py``.
"""

# nox: --max-epochs 4

from __future__ import annotations

import argparse
import math

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_avg_fn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.callbacks import WeightAveraging

STEPS = 100  # from an image to pure noise


class Denoiser(nn.Module):
    """Says which noise is in an image, from the image, the time, and the digit that it shows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.time, self.digit = nn.Linear(32, width), nn.Embedding(10, width)
        self.first, self.last = nn.Linear(64, width), nn.Linear(width, 64)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width)) for _ in range(4))

    def forward(self, images: Tensor, times: Tensor, digits: Tensor) -> Tensor:
        """Return the noise, of the shape of ``images``: ``(batch, 1, 8, 8)``; ``times`` are from 0 to 1."""
        waves = times[:, None] * math.pi * 2 ** torch.arange(16, device=times.device)
        known = self.time(torch.cat([waves.sin(), waves.cos()], dim=1)) + self.digit(digits)
        x = self.first(images.flatten(1))
        for layer in self.layers:
            x = x + nn.functional.silu(layer(x) + known)
        return self.last(x).view_as(images)


class LitDiffusion(pl.LightningModule):
    """Adds noise to images and learns to find it; images have values from -1 to 1."""

    def __init__(self, width: int = 256, lr: float = 1e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = Denoiser(width)
        keeps = torch.cos(torch.linspace(0, 1, STEPS + 1) * math.pi / 2).square().clamp(min=1e-4)
        self.register_buffer("keeps", keeps)  # how much of an image is left at each step, from 1 to nearly 0

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        images, digits = batch
        steps = torch.randint(1, STEPS + 1, (len(images),), device=self.device)
        keep, noise = self.keeps[steps].view(-1, 1, 1, 1), torch.randn_like(images)
        found = self.net(keep.sqrt() * images + (1 - keep).sqrt() * noise, steps / STEPS, digits)
        loss = nn.functional.mse_loss(found, noise)
        self.log("train_loss", loss, prog_bar=True, on_epoch=True)
        return loss

    @torch.no_grad()
    def make(self, digits: Tensor) -> Tensor:
        """Return one image for each digit, shape ``(count, 1, 8, 8)``, values from 0 to 1."""
        images = torch.randn(len(digits), 1, 8, 8, device=self.device)
        for step in range(STEPS, 0, -1):
            keep, before = self.keeps[step], self.keeps[step - 1]
            times = torch.full((len(digits),), step / STEPS, device=self.device)
            noise = self.net(images, times, digits.to(self.device))
            clean = ((images - (1 - keep).sqrt() * noise) / keep.sqrt()).clamp(-1, 1)
            ratio = keep / before
            mean = (before.sqrt() * (1 - ratio) * clean + ratio.sqrt() * (1 - before) * images) / (1 - keep)
            images = mean + ((1 - before) / (1 - keep) * (1 - ratio)).sqrt() * torch.randn_like(images) * (step > 1)
        return (images + 1) / 2

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        """Draw the digits 0 to 9; the batch is the list of them."""
        self.trainer.log_media("digits", self.make(batch[0]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def main() -> None:
    """Train, and print what the model makes of the digits 0 to 4."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-epochs", type=int, default=100)
    args = parser.parse_args()

    pl.seed_everything(42)
    bunch = load_digits()
    images = torch.from_numpy(bunch.images).float().unsqueeze(1) / 8 - 1
    train = DataLoader(TensorDataset(images, torch.from_numpy(bunch.target)), batch_size=64, shuffle=True)
    wanted = DataLoader(TensorDataset(torch.arange(10)), batch_size=10)
    model = LitDiffusion()
    trainer = pl.Trainer(
        max_epochs=args.max_epochs,
        check_val_every_n_epoch=max(args.max_epochs // 4, 1),
        num_sanity_val_steps=0,
        callbacks=[WeightAveraging(avg_fn=get_ema_avg_fn(0.99))],
        logger="tensorboard",
    )
    trainer.fit(model, train, wanted)
    shades = " .:-=+*#%@"
    for rows in model.make(torch.arange(5))[:, 0].clamp(0, 0.999).mul(len(shades)).int().permute(1, 0, 2).tolist():
        trainer.print("   ".join("".join(2 * shades[value] for value in row) for row in rows))
    trainer.print(f"Images of the digits 0 to 9: tensorboard --logdir {trainer.log_dir}")


if __name__ == "__main__":
    main()
