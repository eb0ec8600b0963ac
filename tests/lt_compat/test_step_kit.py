"""Truncated back-propagation through time on the kit that strangers use."""

import pytest
import torch
from torch import nn

from lt_compat.v1.truncated import Truncated
from lt_core import LightningModule
from lt_testing import StepKit

pytestmark = pytest.mark.filterwarnings("ignore:.*:lt_core.errors.LtWarning")  # hints about a toy run


class Recurrent(LightningModule):
    truncated_bptt_steps = 3

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRU(2, 4, batch_first=True), nn.Linear(4, 1)

    def training_step(self, batch, batch_idx, hiddens):
        values, hiddens = self.cell(batch, hiddens)
        loss = (self.head(values)[..., 0] - batch.sum(-1)).square().mean()
        self.log("train_loss", loss)
        return {"loss": loss, "hiddens": hiddens}

    def validation_step(self, batch, batch_idx):
        """Nothing."""

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


class TestTruncated(StepKit):
    @pytest.fixture
    def step(self):
        return Truncated()

    def make_module(self):
        torch.manual_seed(0)
        return Recurrent()

    def make_data(self):
        return torch.randn(20, 8, 2, generator=torch.Generator().manual_seed(1)).split(4)

    def make_arguments(self, step):
        return {}  # the parameter hiddens chooses it
