"""The model of the project, with its own arguments."""

from argparse import ArgumentParser

import torch
from pytorch_lightning.core.lightning import LightningModule
from torch import nn
from torch.nn import functional as F


class LitClassifier(LightningModule):
    def __init__(self, hidden_dim=16, learning_rate=0.05, **kwargs):
        super().__init__()
        self.save_hyperparameters()
        self.l1 = nn.Linear(2, self.hparams.hidden_dim)
        self.l2 = nn.Linear(self.hparams.hidden_dim, 3)
        self.epoch_means = []

    def forward(self, x):
        return self.l2(torch.tanh(self.l1(x)))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss, on_epoch=True)
        return {"loss": loss, "size": len(y)}

    def training_epoch_end(self, outputs):
        self.epoch_means.append(torch.stack([out["loss"] for out in outputs]).mean().item())

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        return {"val_loss": F.cross_entropy(logits, y), "correct": (logits.argmax(1) == y).float().mean()}

    def validation_epoch_end(self, outputs):
        self.log("val_loss", torch.stack([out["val_loss"] for out in outputs]).mean(), prog_bar=True)
        self.log("val_acc", torch.stack([out["correct"] for out in outputs]).mean(), prog_bar=True)

    def test_step(self, batch, batch_idx):
        x, y = batch
        self.log("test_acc", (self(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.learning_rate, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        return [optimizer], [scheduler]

    @staticmethod
    def add_model_specific_args(parent_parser):
        parser = ArgumentParser(parents=[parent_parser], add_help=False)
        parser.add_argument("--hidden_dim", type=int, default=16)
        parser.add_argument("--learning_rate", type=float, default=0.05)
        return parser
