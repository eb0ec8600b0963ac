"""Rows of the steps at which ``trainer.should_stop`` is set: Lightning 2.6.6 logs each of them, ``lt.compat`` too."""

import csv

import pytest
import torch
from torch.utils.data import DataLoader

import lt_loops
from lt_compat.lightning.trainer import trainer_class
from lt_core import LightningModule
from lt_loggers import CSVLogger

EACH = [(1, 1.0), (2, 2.0), (3, 3.0), (4, 0.0), (5, 1.0), (6, 2.0), (7, 3.0)]
HOOKS = ("training_step", "on_train_batch_start", "on_train_batch_end")
# at which batch, log_every_n_steps, accumulate_grad_batches, min_epochs, and the rows of 2.6.6
LIGHTNINGS = [
    ((0, 50, 1, 0), [(0, 0.0)]),
    ((1, 50, 1, 0), [(1, 1.0)]),
    ((1, 2, 1, 0), [(1, 1.0)]),  # once, where one is due anyway
    ((1, 3, 1, 2), EACH),  # min_epochs is not reached: each step until it is
    ((3, 50, 1, 0), [(3, 3.0)]),
    ((1, 50, 2, 0), [(0, 1.0)]),
    ((0, 50, 2, 0), []),  # in the middle of a window
    ((1, 0, 1, 0), []),
]


class Net(LightningModule):
    def __init__(self, hook, at):
        super().__init__()
        self.layer, self.hook, self.at = torch.nn.Linear(2, 1), hook, at

    def stop(self, hook, batch_idx):
        if (hook, batch_idx, self.current_epoch) == (self.hook, self.at, 0):
            self.trainer.should_stop = True

    def training_step(self, batch, batch_idx):
        self.stop("training_step", batch_idx)
        self.log("loss", float(batch_idx))
        return self.layer(batch).sum()

    def on_train_batch_start(self, batch, batch_idx):
        self.stop("on_train_batch_start", batch_idx)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.stop("on_train_batch_end", batch_idx)

    def on_train_epoch_end(self):
        self.stop("on_train_epoch_end", 0)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def rows(kind, hook, at, every, window, least, folder):
    trainer = kind(
        accelerator="cpu",
        max_epochs=3,
        min_epochs=least,
        log_every_n_steps=every,
        accumulate_grad_batches=window,
        logger=CSVLogger(folder, name="", version=""),
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(Net(hook, at), DataLoader(torch.ones(4, 2)))
    text = (folder / "metrics.csv").read_text("utf-8") if (folder / "metrics.csv").exists() else ""
    return [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(text.splitlines())]


@pytest.mark.filterwarnings("ignore:.*log_every_n_steps")
@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize(("case", "expected"), LIGHTNINGS)
def test_a_step_that_asks_for_the_end_has_its_row(case, expected, hook, tmp_path):
    assert rows(trainer_class(), hook, *case, tmp_path) == expected


@pytest.mark.filterwarnings("ignore:.*log_every_n_steps")
def test_an_end_that_is_asked_for_after_the_epoch_has_none(tmp_path):
    assert rows(trainer_class(), "on_train_epoch_end", 0, 50, 1, 0, tmp_path) == []


@pytest.mark.filterwarnings("ignore:.*log_every_n_steps")
def test_lt_itself_keeps_to_log_every_n_steps(tmp_path):
    assert rows(lt_loops.Trainer, "training_step", 1, 50, 1, 0, tmp_path) == []
