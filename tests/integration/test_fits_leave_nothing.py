"""A process that fits again and again in one process group holds no more objects after each of them."""

import gc

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_core import LightningModule
from lt_loops import Trainer
from lt_parallel.decisions import DECISIONS

pytest.importorskip("lt_strategies")
pytestmark = pytest.mark.ddp


class Lit(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.parametrize("strategy", ["auto", "ddp_fork", "fsdp"])
def test_no_fit_leaves_an_object(strategy):
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    held = []
    for _ in range(5):
        trainer = Trainer(accelerator="cpu", devices=1, strategy=strategy, max_epochs=1, **quiet)
        trainer.fit(Lit(), DataLoader(TensorDataset(torch.ones(8, 4)), 2))
        del trainer
        DECISIONS.clear()  # what ranks read that are started later: a bounded number of values
        gc.collect()
        held.append(len(gc.get_objects()))
    assert held[-1] == held[-2] == held[-3], held
