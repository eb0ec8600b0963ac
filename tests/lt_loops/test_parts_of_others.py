"""Parts of other packages that do not keep their interface are told what it is, in place of doing nothing."""

import pytest
import torch
from torch.utils.data import DataLoader

from lt_core import (
    Accelerator,
    Callback,
    CheckpointIO,
    ConfigError,
    LightningModule,
    Logger,
    LtWarning,
    Precision,
    plugins,
)
from lt_core.profiler import Profiler
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(**arguments):
    trainer = Trainer(**{**QUIET, "accelerator": "cpu", "max_epochs": 1, **arguments})
    trainer.fit(Net(), DataLoader(torch.ones(8, 2), 4))
    return trainer


def test_a_precision_whose_step_returns_nothing_is_told():
    class Forgets(Precision):
        def step(self, optimizer, take_step):
            take_step()

    with pytest.raises(ConfigError, match=r"Forgets.step or \w+.optimizer_step returned None.*LT758"):
        fit(plugins=[Forgets()])


class Nowhere(CheckpointIO):
    def save_checkpoint(self, checkpoint, path, storage_options=None): ...


class Elsewhere(Nowhere):
    def exists(self, path):
        return True


def test_a_checkpoint_io_that_writes_nothing_is_told_once(tmp_path):
    trainer = fit(plugins=[Nowhere()])
    with pytest.warns(LtWarning, match=r"Nowhere.save_checkpoint raised no error, .* finds no .*one.ckpt.*LT760"):
        trainer.save_checkpoint(tmp_path / "one.ckpt")
    fit(plugins=[Elsewhere()]).save_checkpoint(tmp_path / "two.ckpt")


def test_a_priority_that_is_no_number_is_told(monkeypatch):
    class Urgent(Callback):
        priority = "high"

    class Chip(Accelerator):
        priority = "high"

    with pytest.raises(ConfigError, match=r"Urgent.priority is 'high': expected a number. \[LT759\]"):
        fit(callbacks=[Urgent()])
    monkeypatch.setattr(plugins, "names", lambda group: ["chip"] * (group == "accelerators"))
    monkeypatch.setattr(plugins, "load", lambda group, name: Chip)
    with pytest.raises(ConfigError, match="Chip.priority is 'high'"):
        Trainer(**QUIET)


def test_a_profiler_begins_when_the_logger_knows_where_it_writes():
    class Late(Logger):
        log_dir = None

        def claim_version(self, beside=()):
            self.log_dir = "claimed"
            return "0"

    class Notes(Profiler):
        def start(self, stage, log_dir):
            self.seen = stage, log_dir

    fit(logger=Late(), profiler=(notes := Notes()))
    assert notes.seen == ("fit", "claimed")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("others", [0, 1])
def test_a_logger_that_shares_no_folder_need_not_take_the_others(others):
    class Alone(Logger):
        def claim_version(self):
            claimed.append(self)

    claimed = []
    fit(logger=[*(Logger() for _ in range(others)), alone := Alone()])
    assert claimed == [alone]


def test_an_accelerator_written_for_lightning_is_told_lts_members_and_where_they_are_explained():
    class Chip(Accelerator):
        @staticmethod
        def parse_devices(devices):
            return int(devices)

        @staticmethod
        def name():
            return "chip"

    with pytest.raises(TypeError, match=r"Chip has .* torch_device\(index\).*write-a-plugin.md.*\[LT116\]"):
        Trainer(**QUIET, accelerator=Chip(), devices=1)
