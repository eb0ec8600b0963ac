"""What ``Trainer.explain`` says of one process; other ranks and strategies: tests/integration/test_explain.py."""

import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lt_core import LightningModule
from lt_core.data import DataSource
from lt_loops import Trainer


class Learns(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1000, 1000, bias=False)

    def training_step(self, batch):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.zeros(64, 1000)), batch_size=8)


def made(**arguments):
    return Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, **arguments)


def test_place_memory_data_and_times_are_printed_and_returned(capsys):
    text = made(max_epochs=2).explain(Learns())
    assert capsys.readouterr().out == text + "\n"
    place = "Where: strategy 'single', accelerator 'cpu', precision '32-true': 1 node x 1 device = 1 rank"
    assert text.startswith(place)
    counted = "parameters 0.004, gradients 0.004, optimizers 0.008: 0.016 together"
    assert (counted if find_spec("lt_memory") else "Memory: counted by lt-memory: ") in text
    assert "an epoch: 8 batches on each rank, 8 optimizer steps\n  the whole fit: 16 optimizer steps" in text
    assert "stops: max_epochs=2\n  checkpoints: none" in text


class Rows(DataSource):
    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.zeros(32, 1000)), batch_size=8)


@pytest.mark.parametrize(
    ("given", "batches"), [((Learns(),), 8), ((Learns(), Rows()), 4), ((Learns(), Rows().train_dataloader()), 4)]
)
def test_memory_is_told_beside_data_from_wherever_it_comes(given, batches):
    text = made().explain(*given)
    assert "\nMemory" in text
    assert f"an epoch: {batches} batches" in text


def test_a_schedule_of_windows_counts_in_the_steps_of_the_whole_fit():
    trainer = made(max_epochs=3, accumulate_grad_batches={0: 1, 1: 4})
    loader = DataLoader(TensorDataset(torch.randn(128, 4)), batch_size=8)
    assert "the whole fit: 24 optimizer steps" in trainer.explain(train_dataloaders=loader)


def test_step_values_by_time_are_told():
    assert "step values: every 0:00:30, to" in made(log_every_n_steps="30 s").explain(Learns())


def test_the_order_in_which_a_resume_takes_things_back_is_told():
    text = made().explain(Learns())
    order = [
        "A resume takes back",
        "before setup: ",
        "weights",
        "before on_fit_start: ",
        "optimizers",
        "place in the data",
    ]
    assert sorted(order, key=text.rindex) == order


def test_without_this_package_the_error_names_it():
    script = """
import lt_core.plugins as plugins
from lt_loops import Trainer
plugins._scan()["defaults"].pop("explain")
try:
    Trainer(accelerator="cpu").explain()
except plugins.PluginError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "'explain' comes with lt-explain: " in said
