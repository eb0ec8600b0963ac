"""``predict_iter`` works where it is called, and nowhere else."""

import pytest
import torch
from torch.utils.data import DataLoader

pytest.importorskip("lt_strategies")

from lt_core import ConfigError, LightningModule
from lt_loops import Trainer


def test_predict_iter_does_not_wait_for_ranks_that_nobody_started():
    trainer = Trainer(accelerator="cpu", devices=2, strategy="ddp", logger=False)
    with pytest.raises(ConfigError, match=r"predict_iter\(\) yields in this process.*'ddp'.*LT595"):
        trainer.predict_iter(LightningModule(), DataLoader(torch.ones(4, 1)))
