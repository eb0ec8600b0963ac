"""A fit says in a few lines where it computes, what it goes on with, where it writes, and at its end what is kept."""

import pytest
import torch
from torch.utils.data import DataLoader

from lt_callbacks import ModelCheckpoint
from lt_core import LightningModule
from lt_loggers import CSVLogger
from lt_loops import Trainer


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def fit(monkeypatch, tmp_path, capsys):
    """Train in ``tmp_path`` over epochs of two steps; return what was printed, without the epochs."""
    monkeypatch.chdir(tmp_path)

    def run(ckpt_path=None, **arguments):
        quiet = {"enable_model_summary": False, "accelerator": "cpu", "logger": CSVLogger(".", name="runs")}
        Trainer(**{**quiet, **arguments}).fit(Net(), DataLoader(torch.ones(2, 1)), ckpt_path=ckpt_path)
        lines = capsys.readouterr().out.splitlines()
        return [line for line in lines if not line.startswith(("Epoch", "Metrics: "))]

    return run


def test_a_fit_says_where_it_computes_and_writes_and_what_it_kept(fit):
    assert fit(max_epochs=2) == [
        "Training on the CPU, precision 32-true",
        "Writing to runs/version_0",
        "Training ended after epoch 1, step 4: max_epochs=2 reached.",
        "Checkpoints in runs/version_0/checkpoints: newest epoch=1-step=4.ckpt",
    ]


def test_a_resume_says_from_where_in_the_numbers_of_the_file_s_name(fit):
    fit(max_epochs=1)
    lines = fit("runs/version_0/checkpoints/epoch=0-step=2.ckpt", max_epochs=2)
    assert lines[1].startswith("Loaded runs/version_0/checkpoints/epoch=0-step=2.ckpt: epoch 0, step 2, run ")
    assert len([line for line in lines if line.startswith(("Training on", "Loaded", "Writing"))]) == 3


def test_a_fit_that_ends_in_an_epoch_says_in_which(fit):
    assert "Training ended in epoch 1, step 3: max_steps=3 reached." in fit(max_steps=3)


def test_folders_apart_are_both_named_and_a_run_without_files_names_none(fit):
    lines = fit(max_epochs=1, callbacks=[ModelCheckpoint("kept")])
    assert "Writing to runs/version_0, kept" in lines
    assert len(fit(max_epochs=1, logger=False, enable_checkpointing=False)) == 2


def test_a_quiet_fit_says_nothing(fit):
    assert fit(max_epochs=1, enable_progress_bar=False, enable_checkpointing=False) == []


def test_slow_preparation_says_what_it_waits_for(fit, monkeypatch):
    monkeypatch.setattr("lt_core.terminal.waiting.__wrapped__.__kwdefaults__", {"says": True, "after": 0.0})
    monkeypatch.setattr(Net, "prepare_data", lambda self: None)
    assert "Net.prepare_data() took 0 s." in fit(max_epochs=1)
