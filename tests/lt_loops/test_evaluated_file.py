"""Rows of an evaluation stand where the weights come from."""

import pytest
import torch
from torch import nn

from lt_core import LightningModule
from lt_core.logger import Logger
from lt_loops import Trainer

QUIET = dict.fromkeys(("enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).mean()

    def validation_step(self, batch, batch_idx):
        self.log("value", self.layer(batch).mean())

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Rows(Logger):
    def __init__(self):
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, metrics["epoch"]))


def trainer(**arguments):
    return Trainer(accelerator="cpu", **{"logger": Rows(), "max_epochs": 3, **QUIET, **arguments})


DATA = [torch.ones(2, 2)] * 4


@pytest.mark.parametrize("stage", ["validate", "test"])
@pytest.mark.parametrize(("axis", "where"), [("step", 12), ("epoch", 2)])
def test_of_a_file_they_stand_at_its_step_and_epoch(axis, where, stage, tmp_path):
    fitted = trainer()
    fitted.fit(Net(), DATA)
    fitted.save_checkpoint(tmp_path / "end.ckpt")
    evaluating = trainer()
    evaluating.log_axis = axis
    getattr(evaluating, stage)(Net(), DATA, ckpt_path=tmp_path / "end.ckpt", verbose=False)
    assert evaluating.logger.rows == [(where, 2)]
    assert (evaluating.global_step, evaluating.current_epoch) == (0, 0)


def test_after_a_fit_they_stand_behind_those_of_the_fit(tmp_path):
    fitted = trainer(max_epochs=1)
    fitted.fit(net := Net(), DATA)
    fitted.save_checkpoint(tmp_path / "first.ckpt")
    fitted.max_epochs = 3
    fitted.fit(net, DATA)
    fitted.logger.rows.clear()
    fitted.validate(net, DATA, ckpt_path=tmp_path / "first.ckpt", verbose=False)
    assert fitted.logger.rows == [(12, 3)]


def test_without_a_file_they_stand_at_0():
    evaluating = trainer()
    evaluating.validate(Net(), DATA, verbose=False)
    assert evaluating.logger.rows == [(0, 0)]
