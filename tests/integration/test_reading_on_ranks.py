"""Ranks that a launcher started read a checkpoint only when it is complete, and all read the same one."""

import os
import subprocess
import sys

import pytest
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


def test_ranks_wait_for_the_file_that_rank_zero_writes(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py", str(tmp_path / "files")],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith(("best", "last"))]
    assert len(said) == 4, done.stdout
    assert len({line.split()[-1] for line in said}) == 1
    assert all(line.split()[1] == "True" for line in said)
