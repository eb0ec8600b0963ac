"""What runs without lt-checkpoint, and what says that it needs it."""

import pytest
import torch
from torch import nn

from lt_callbacks import ModelCheckpoint
from lt_core import CheckpointError, ConfigError, LightningModule, PluginError, plugins
from lt_core.checkpoint import OneFile
from lt_loops import Trainer
from lt_parallel import FSDP

QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)


@pytest.fixture(autouse=True)
def without(monkeypatch):
    """No entry point of lt-checkpoint is found, as where it is not installed."""
    found = {
        group: {name: e for name, e in names.items() if not e[0].value.startswith("lt_checkpoint")}
        for group, names in plugins._scan().items()
    }
    monkeypatch.setattr(plugins, "_scan", lambda: found)


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 1))

    def training_step(self, batch, batch_idx):
        loss = self.layers(batch).square().mean()
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def fitted(steps, folder, ckpt_path=None, **how):
    torch.manual_seed(3)
    module = Net()
    saves = ModelCheckpoint(folder, every_n_train_steps=3, save_top_k=-1, save_last=True)
    trainer = Trainer(accelerator="cpu", max_steps=steps, callbacks=[saves], **QUIET, **how)
    trainer.fit(module, torch.utils.data.DataLoader(torch.ones(10, 4), 2), ckpt_path=ckpt_path)
    return module, trainer


def test_a_run_saves_plain_files_and_resumes_exactly(tmp_path):
    whole, trainer = fitted(9, tmp_path / "whole")
    assert type(trainer.checkpoint_io) is OneFile
    fitted(3, tmp_path / "half")
    resumed, second = fitted(9, tmp_path / "half", ckpt_path="last")
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
    assert second.global_step == 9
    half, at_once = ({path.name for path in (tmp_path / run).iterdir()} for run in ("half", "whole"))
    assert half == at_once
    assert Net.load_from_checkpoint(tmp_path / "half" / "last.ckpt").layers[0].weight.equal(resumed.layers[0].weight)


def test_checkpoints_behind_a_url_are_an_error_before_the_first_step(tmp_path):
    with pytest.raises(ConfigError, match=r"come with lt-checkpoint: .*install .*lt-checkpoint"):
        fitted(3, "memory://bucket/run")
    with pytest.raises(CheckpointError, match=r"come with lt-checkpoint.*LT630"):
        fitted(3, tmp_path, ckpt_path="memory://bucket/a.ckpt")


def test_sharded_checkpoints_are_an_error_in_the_constructor():
    with pytest.raises(ConfigError, match=r"every rank contributes comes with lt-checkpoint: .*LT636"):
        Trainer(accelerator="cpu", strategy=FSDP(state_dict_type="sharded"), **QUIET)


def test_saving_in_the_background_by_name_says_where_it_comes_from():
    with pytest.raises(PluginError, match="lt-checkpoint"):
        Trainer(accelerator="cpu", plugins="async", **QUIET)
