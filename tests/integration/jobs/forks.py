"""Trains while a hook forks a child that ends in some way: ``forks.py FOLDER HOW STRATEGY``; exits 7 in the child."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl

FOLDER, HOW, STRATEGY = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
signal.signal(signal.SIGTERM, signal.SIG_DFL)  # CI runners hand it on as ignored, which lt respects
torch.set_num_threads(1)


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        if batch_idx == 2 and self.global_rank == 0:
            child = os.fork()
            if child == 0:
                self.in_child()
            if HOW == "told to end":
                time.sleep(0.2)
                os.kill(child, signal.SIGTERM)
            (FOLDER / "child").write_text(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
        return self.layer(batch[0]).square().mean()

    def in_child(self):
        if HOW == "exits":
            sys.exit(7)
        if HOW == "raises":
            raise ValueError("the child's own")
        while True:
            time.sleep(60)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    off = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    devices = 1 if STRATEGY == "auto" else 2
    keeps = pl.callbacks.ModelCheckpoint(FOLDER / "files", filename="end", save_on_exception=True)
    trainer = pl.Trainer(accelerator="cpu", devices=devices, strategy=STRATEGY, max_epochs=1, callbacks=keeps, **off)
    data = TensorDataset(torch.arange(128.0).reshape(32, 4))
    trainer.fit(Net(), DataLoader(data, 2, num_workers=1))
    (FOLDER / f"trained {trainer.global_step}").touch()
