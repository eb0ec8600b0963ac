"""Ranks that a launcher started read a checkpoint only when it is complete, and all read the same one."""

import os
import sys

import pytest
from tests import warm
from tests.patience import PATIENCE

pytestmark = [pytest.mark.ddp, pytest.mark.slow]

SCRIPT = """
import sys
import time

import torch

import lt as pl
from lt.callbacks import ModelCheckpoint
from lt.plugins import AsyncCheckpointIO, CheckpointIO


class Slow(CheckpointIO):
    def save_checkpoint(self, checkpoint, path, storage_options=None):
        time.sleep(1.0)
        super().save_checkpoint(checkpoint, path, storage_options)


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", -float(self.current_epoch))

    def test_step(self, batch, batch_idx):
        self.log("weight", self.layer.weight.sum())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    data = [torch.ones(2, 1)] * 4
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=2,
        callbacks=ModelCheckpoint(dirpath=sys.argv[1], monitor="val_loss", filename="{epoch}"),
        plugins=[AsyncCheckpointIO(Slow())],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    net = Net()
    trainer.fit(net, data, data)
    for which in ("best", "last"):
        [found] = trainer.test(net, data, ckpt_path=which, verbose=False)
        sys.stdout.write(f"{which} {trainer.ckpt_path.endswith('epoch=1.ckpt')} {found['weight']:.6f}\\n")
"""


DIFFERENT_FOLDERS = """
import os
import sys

import torch

import lt as pl
from lt.callbacks import ModelCheckpoint


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(folder, max_steps, ckpt_path=None):
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    keep = ModelCheckpoint(folder, every_n_train_steps=2, save_top_k=-1)
    ranks = {"accelerator": "cpu", "devices": 2, "strategy": "ddp"}
    trainer = pl.Trainer(callbacks=keep, max_epochs=1, max_steps=max_steps, **ranks, **quiet)
    start = []
    net = Net()
    net.on_train_start = lambda: start.append(trainer.global_step)
    try:
        trainer.fit(net, [torch.ones(2, 1)] * 8, ckpt_path=ckpt_path)
    except pl.errors.MissingCheckpointError as error:
        start.append(error.code)
    sys.stdout.write(f"{ckpt_path} {start}\\n")


if __name__ == "__main__":
    full, empty = os.path.join(sys.argv[1], "full"), os.path.join(sys.argv[1], "empty")
    fit(full, 4)
    mine = {"full": (full, empty), "empty": (empty, full)}[sys.argv[2]]
    fit(mine[int(os.environ.get("LOCAL_RANK", "0"))], 6, "last")
"""


def ran(tmp_path, script, *arguments, fails=False):
    (tmp_path / "script.py").write_text(script)
    done = warm.run(
        [sys.executable, "script.py", str(tmp_path / "files"), *arguments],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith(("best", "last"))]
    assert len(said) >= 2, done.stdout
    return said


@pytest.mark.parametrize(("rank_0_sees", "both"), [("full", "[4]"), ("empty", "['LT611']")])
def test_ranks_that_see_different_files_go_by_what_rank_zero_sees(rank_0_sees, both, tmp_path):
    said = ran(tmp_path, DIFFERENT_FOLDERS, rank_0_sees, fails=rank_0_sees == "empty")
    assert said == [f"last {both}"] * 2


def test_ranks_wait_for_the_file_that_rank_zero_writes(tmp_path):
    said = ran(tmp_path, SCRIPT)
    assert len(said) == 4
    assert len({line.split()[-1] for line in said}) == 1
    assert all(line.split()[1] == "True" for line in said)
