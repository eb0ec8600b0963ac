"""The kit for launchers; then what is Monarch's own: a rank that is killed in a fit, and hosts."""

import os
import signal
import sys
import time
from types import SimpleNamespace

import cloudpickle
import monarch.actor
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lt import LightningModule, Trainer
from lt.callbacks import ModelCheckpoint
from lt_core.errors import ConfigError, LtWarning, RankError
from lt_core.launcher import RunResult
from lt_core.strategy import Placement
from lt_monarch import MonarchLauncher, launcher
from lt_strategies import DDP
from lt_testing import LauncherKit

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Monarch's processes cannot import this file


class TestMonarchLauncher(LauncherKit):
    def make_launcher(self):
        return MonarchLauncher()


class Line(LightningModule):
    """A line to be fitted to points. Each start notes its process; once, the last rank kills itself in epoch 1."""

    def __init__(self, folder):
        super().__init__()
        torch.manual_seed(0)
        self.folder, self.layer = folder, torch.nn.Linear(4, 1)

    def on_fit_start(self):
        with (self.folder / f"pids.{self.trainer.global_rank}").open("a") as file:
            print(os.getpid(), file=file)

    def on_train_epoch_start(self):
        with (self.folder / f"epochs.{self.trainer.global_rank}").open("a") as file:
            file.write(str(self.current_epoch))

    def train_dataloader(self):
        made = torch.Generator().manual_seed(1)
        data = TensorDataset(torch.randn(64, 4, generator=made), torch.randn(64, 1, generator=made))
        return DataLoader(data, batch_size=8, shuffle=True)

    def training_step(self, batch, batch_idx):
        once = self.folder / "once"
        if self.current_epoch == 1 and self.trainer.global_rank == 1 and once.exists():
            once.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        loss = ((self.layer(batch[0]) - batch[1]) ** 2).mean()
        self.log("loss", loss, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def fit(folder, **where):
    folder.mkdir(exist_ok=True)
    trainer = Trainer(
        accelerator="cpu", devices=2, max_epochs=3, default_root_dir=folder, logger=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[ModelCheckpoint(folder, save_last=True)], **where
    )  # fmt: skip
    trainer.fit(Line(folder), ckpt_path="auto")
    return trainer.global_step, trainer.callback_metrics["loss_epoch"], trainer.lightning_module.layer.weight.tolist()


def test_a_killed_rank_is_replaced_the_other_keeps_its_process_and_the_fit_ends_as_if_nothing_had_been(tmp_path):
    whole = fit(tmp_path / "whole", strategy=DDP(launcher="fork"))
    killed = tmp_path / "killed"
    killed.mkdir()
    (killed / "once").touch()
    with pytest.warns(LtWarning, match=r"Rank 1 of 2 died(.|\n)*New processes for ranks \[1\]"):
        assert fit(killed, strategy="ddp", plugins=[MonarchLauncher(retries=1)]) == whole
    assert [(killed / f"epochs.{rank}").read_text() for rank in (0, 1)] == ["0112"] * 2  # the first not again
    stayed, replaced = ((killed / f"pids.{rank}").read_text().split() for rank in (0, 1))
    assert stayed[0] == stayed[1]
    assert replaced[0] != replaced[1]


def test_a_rank_that_hangs_is_named_with_its_line():
    strategy = DDP(step_deadline=5)
    strategy.place(Placement(devices=(0, 1), launcher=MonarchLauncher()))

    def run():
        strategy.open()
        strategy.supervisor.ready()
        strategy.supervisor.batch_done("train")
        if strategy.rank == 1:
            time.sleep(10_000)
        strategy.barrier("never")
        return RunResult()

    with pytest.raises(RankError, match=r"Rank 1 of 2 hangs in train batch 2 of this run(.|\n)*line \d+ in run"):
        strategy.launch(run)


def test_as_many_hosts_as_nodes_are_wanted():
    strategy = DDP()
    strategy.place(Placement(devices=(0,), num_nodes=2, launcher=MonarchLauncher()))
    with pytest.raises(ConfigError, match=r"num_nodes=2.* received 1"):
        strategy.launch(RunResult)
    with pytest.raises(ConfigError, match="expected 0 or more"):
        MonarchLauncher(retries=-1)


def test_what_is_lost_of_others_meshes_goes_where_it_went(monkeypatch):
    heard = []
    monkeypatch.setattr(monarch.actor, "unhandled_fault_hook", heard.append)
    launcher._survive_losses()
    launcher._survive_losses()
    for name in ("theirs-1", "lt_rank-1", "logger-1"):
        monarch.actor.unhandled_fault_hook(SimpleNamespace(mesh_name=name))
    assert [failure.mesh_name for failure in heard] == ["theirs-1"]
