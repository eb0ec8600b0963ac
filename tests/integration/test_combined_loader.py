"""``CombinedLoader`` and several loaders by the Trainer."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lt_core import LightningModule
from lt_core.errors import LtWarning
from lt_data import CombinedLoader
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


class Notes(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.seen = []

    def training_step(self, batch, batch_idx):
        self.seen.append({name: part[0].tolist() for name, part in batch.items()})
        return self.layer(torch.ones(1, 1)).sum()

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.seen.append((batch_idx, dataloader_idx, batch[0].tolist()))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def numbers(*values):
    return DataLoader(TensorDataset(torch.tensor(values)), batch_size=2)


def trainer():
    return Trainer(max_epochs=1, accelerator="cpu", num_sanity_val_steps=0, **QUIET)


def test_a_dict_of_loaders_is_read_together_in_training():
    model = Notes()
    trainer().fit(model, {"a": numbers(1, 2, 3), "b": numbers(7)})
    assert model.seen == [{"a": [1, 2], "b": [7]}, {"a": [3], "b": [7]}]


def test_a_combined_loader_in_training():
    model = Notes()
    trainer().fit(model, CombinedLoader({"a": numbers(1, 2, 3), "b": numbers(7)}, "min_size"))
    assert model.seen == [{"a": [1, 2], "b": [7]}]


def test_a_sequential_combined_loader_in_validation_tells_its_loaders():
    model = Notes()
    trainer().validate(model, CombinedLoader([numbers(1, 2, 3), numbers(7)], "sequential"), verbose=False)
    assert model.seen == [(0, 0, [1, 2]), (1, 0, [3]), (0, 1, [7])]


def test_the_run_says_when_it_waited_for_data_most_of_the_time(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("lt_core.data.perf_counter", lambda: clock.now)
    # the first of 40 batches stands for itself, the 17th and the 33rd for 16 each
    with pytest.warns(LtWarning, match=r"82% of the time went to waiting for fit batches.*num_workers.*LT801"):
        trainer().fit(Slow(), DataLoader(clock))


class Clock(Dataset):
    now = 0.0

    def __len__(self):
        return 40

    def __getitem__(self, index):
        self.now += 1.0
        return torch.zeros(1)


class Slow(Notes):
    def training_step(self, batch, batch_idx):
        return self.layer(batch).sum()
