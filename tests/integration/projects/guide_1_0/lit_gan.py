"""A model with two optimizers, which takes its turn by ``optimizer_idx``."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F


class GAN(pl.LightningModule):
    def __init__(self, lr=0.01):
        super().__init__()
        self.save_hyperparameters()
        self.generator = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
        self.discriminator = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, z):
        return self.generator(z)

    def adversarial_loss(self, y_hat, y):
        return F.binary_cross_entropy_with_logits(y_hat, y)

    def training_step(self, batch, batch_idx, optimizer_idx):
        points, _ = batch
        z = points.flip(1)
        real, fake = points.new_ones(len(points), 1), points.new_zeros(len(points), 1)
        if optimizer_idx == 0:
            loss = self.adversarial_loss(self.discriminator(self(z)), real)
            self.log("g_loss", loss, prog_bar=True)
            return loss
        real_loss = self.adversarial_loss(self.discriminator(points), real)
        fake_loss = self.adversarial_loss(self.discriminator(self(z).detach()), fake)
        loss = (real_loss + fake_loss) / 2
        self.log("d_loss", loss, prog_bar=True)
        return {"loss": loss}

    def configure_optimizers(self):
        opt_g = torch.optim.Adam(self.generator.parameters(), lr=self.hparams.lr, betas=(0.5, 0.999))
        opt_d = torch.optim.Adam(self.discriminator.parameters(), lr=self.hparams.lr, betas=(0.5, 0.999))
        return [opt_g, opt_d], []
