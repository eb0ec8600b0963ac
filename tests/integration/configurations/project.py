"""A project of Lightning's, whose command line the files beside this one configure."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule
from lightning.pytorch.cli import LightningCLI, LRSchedulerCallable, OptimizerCallable
from torch import nn


class Net(LightningModule):
    """A net.

    Args:
        lr: learning rate.
        hidden: units.
        extra: anything.
    """

    def __init__(self, lr: float = 0.1, hidden: int = 4, extra: dict[str, Any] | None = None):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def training_step(self, batch, batch_idx):
        loss = (self.layers(batch) - 1).pow(2).mean()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", (self.layers(batch) - 1).pow(2).mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)


class Parts(LightningModule):
    def __init__(
        self,
        backbone: nn.Module,
        optimizer: OptimizerCallable = torch.optim.Adam,
        scheduler: LRSchedulerCallable | None = None,
        heads: list[nn.Module] | None = None,
    ):
        super().__init__()
        self.layers = nn.Sequential(backbone, *(heads or ()))
        self.optimizer, self.scheduler = optimizer, scheduler

    training_step = Net.training_step

    def configure_optimizers(self):
        optimizer = self.optimizer(self.parameters())
        return {"optimizer": optimizer, "lr_scheduler": self.scheduler(optimizer)}


class Data(LightningDataModule):
    def __init__(self, batch_size: int = 4):
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self):
        numbers = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))
        return torch.utils.data.DataLoader(numbers, batch_size=self.batch_size)

    val_dataloader = train_dataloader


class Note(Callback):
    def __init__(self, word: str = "x", every: int = 1):
        self.word, self.every = word, every


def run(file, *words):
    """Return the value of each metric at the end of the run that a file and further words configure."""
    model = {"objects": Parts, "subclasses": None, "bare_names": None}.get(file.stem, Net)
    before = [f"--config={file}", "fit"] if file.stem == "sections" else ["fit", f"--config={file}"]
    data = None if file.stem in ("subclasses", "bare_names") else Data
    made = LightningCLI(model, data, args=[*before, *words], save_config_kwargs={"overwrite": True})
    return {name: float(value) for name, value in made.trainer.callback_metrics.items()}
