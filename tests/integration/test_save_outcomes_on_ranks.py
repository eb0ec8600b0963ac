"""A job of several processes whose newest state is not on disk ends with an exit status that says so."""

import os
import sys

import pytest
from tests import warm
from tests.patience import PATIENCE

pytestmark = [pytest.mark.ddp, pytest.mark.slow]

SCRIPT = """
import errno, sys
from pathlib import Path
import torch
import lt as pl
from lt.callbacks import ModelCheckpoint
from lt_core import CheckpointIO
class Full(CheckpointIO):
    def save_checkpoint(self, checkpoint, path, storage_options=None):
        if "step=4" in str(path): raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().save_checkpoint(checkpoint, path, storage_options)
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, batch_idx): return self.layer(batch).square().mean()
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.01)
if __name__ == "__main__":
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    keep = ModelCheckpoint(sys.argv[1], every_n_train_steps=2, save_top_k=-1)
    ranks = {"accelerator": "cpu", "devices": 2, "strategy": sys.argv[2]}
    t = pl.Trainer(max_steps=4, callbacks=[keep], plugins=[Full()], **ranks, **quiet)
    t.fit(Net(), torch.utils.data.DataLoader(torch.ones(32, 2), 2))
"""


@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn"])
def test_every_launcher_hands_the_error_on(strategy, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = warm.run(
        [sys.executable, "script.py", str(tmp_path / "files"), strategy],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert "LT641" in done.stderr
