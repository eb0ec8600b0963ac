"""Trains on two ranks, whose watcher is killed in the middle: ``unwatched.py FOLDER HOW``."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl

FOLDER, HOW = Path(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        if batch_idx == 2 and self.global_rank == 0 and HOW == "killed":
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            (watcher,) = [pid for pid in children if str(Path(f"/proc/{pid}/fd/0").readlink()).startswith("pipe")]
            os.kill(int(watcher), signal.SIGKILL)
        if batch_idx == 2 and HOW == "suspended":
            (FOLDER / f"stands {self.global_rank}").touch()
            time.sleep(2.0)
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    off = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
    deadline = 15.0 if HOW == "suspended" else None
    strategy = pl.strategies.DDPStrategy(step_deadline=deadline)
    trainer = pl.Trainer(accelerator="cpu", devices=2, strategy=strategy, max_epochs=1, **off)
    net = Net()
    trainer.fit(net, DataLoader(TensorDataset(torch.arange(64.0).reshape(16, 4)), 2))
    if len(sys.argv) > 3 and net.global_rank == 1:
        time.sleep(1.0)
        raise ValueError("after the fit")
    time.sleep(0.5 * net.global_rank)
    (FOLDER / f"end {net.global_rank}").touch()
