"""A fit that fails leaves no loader worker behind, although its error is still being handled and holds its frames."""

import gc
import multiprocessing
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from tests import processes
from tests.patience import PATIENCE
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lt_core import LightningModule
from lt_loops import Trainer

pytest.importorskip("lt_data")


class Numbers(Dataset):
    def __init__(self, bad=None):
        self.bad = bad

    def __len__(self):
        return 20

    def __getitem__(self, index):
        if index == self.bad:
            raise ValueError("boom")
        return torch.ones(4)


class Lit(LightningModule):
    def __init__(self, where):
        super().__init__()
        self.layer, self.where = nn.Linear(4, 1), where

    def training_step(self, batch, batch_idx):
        if (self.where, batch_idx) == ("train", 3):
            raise ValueError("boom")
        return self.layer(batch).square().mean()

    def validation_step(self, batch, batch_idx):
        if self.where == "val":
            raise ValueError("boom")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("where", ["train", "val", "train data", "val data"])
def test_no_worker_outlives_a_failed_fit(where, persistent):
    def loader(kind):
        bad = 7 if where == f"{kind} data" else None
        return DataLoader(Numbers(bad), 2, num_workers=1, persistent_workers=persistent)

    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    before = set(multiprocessing.active_children())
    gc.disable()
    try:
        with pytest.raises(ValueError, match="boom") as caught:
            Trainer(accelerator="cpu", max_epochs=1, num_sanity_val_steps=0, **quiet).fit(
                Lit(where), loader("train"), loader("val")
            )
        assert caught.value is not None
        assert set(multiprocessing.active_children()) == before
    finally:
        gc.enable()


KILLED = """
import os, signal, sys
from torch.utils.data import DataLoader
from tests.integration.test_workers_end import Lit, Numbers
from lt_core import Callback
from lt_loops import Trainer

class Dies(Callback):
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if batch_idx == 2:
            import multiprocessing
            print(*(child.pid for child in multiprocessing.active_children()), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
loader = DataLoader(Numbers(), 2, num_workers=2)
Trainer(accelerator="cpu", max_epochs=1, callbacks=[Dies()], **off).fit(Lit(None), loader)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_workers_end_with_a_run_that_is_killed_and_do_not_wait_for_torch_to_look(monkeypatch):
    root = Path(__file__).parents[2]
    slow = "import torch.utils.data._utils.worker as w; w.MP_STATUS_CHECK_INTERVAL = 3600\n"  # torch's look never comes
    done = processes.run([sys.executable, "-c", slow + KILLED], capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == -signal.SIGKILL
    left = [Path("/proc", pid) for pid in done.stdout.split()]
    assert len(left) == 2
    end = time.monotonic() + PATIENCE
    while any(is_running(process) for process in left):
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(process):
    try:
        return ") Z " not in (process / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
