"""Loaders that are functions with arguments filled in, set on the module as an attribute."""

from functools import partial

import torch
from torch import nn
from torch.utils.data import DataLoader

from lt_core import LightningModule


class Net(LightningModule):
    """Has its loaders made by ``functools.partial``."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.seen = []
        self.train_dataloader = partial(self.loader, 4)
        self.val_dataloader = partial(self.loader, size=2)

    def loader(self, size):
        return DataLoader(torch.zeros(size, 1))

    def training_step(self, batch, batch_idx):
        self.seen.append("train")
        return self.layer(batch).sum()

    def validation_step(self, batch, batch_idx):
        self.seen.append("val")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_a_partial_of_the_users_gives_the_loader(trainer):
    net = Net()
    trainer(max_epochs=1, num_sanity_val_steps=0).fit(net)
    assert net.seen == ["train"] * 4 + ["val"] * 2
