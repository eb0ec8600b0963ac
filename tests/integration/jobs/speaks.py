"""Trains and has lt say all that it can, while nobody can be told: ``speaks.py FOLDER HOW BAR``."""

import os
import pty
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.callbacks import EarlyStopping, ModelCheckpoint, RichModelSummary, RichProgressBar, Timer, TQDMProgressBar
from lt_core.errors import warn

FOLDER, HOW, BAR = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.set_num_threads(1)


def lose_output():
    """Have stdout and stderr take nothing any more, or not all."""
    if HOW in ("a closed pipe", "a terminal that is gone"):
        ours, theirs = os.pipe() if HOW == "a closed pipe" else reversed(pty.openpty())
        closed, kept = (ours, theirs) if HOW == "a closed pipe" else (theirs, ours)
        os.close(closed)
    elif HOW == "a full disk":
        kept = os.open("/dev/full", os.O_WRONLY)
    elif HOW == "a deleted folder":
        os.chdir(gone := tempfile.mkdtemp())
        Path(gone).rmdir()
        return
    elif HOW == "closed streams":
        sys.stdout.close()
        sys.stderr.close()
        return
    else:
        sys.stdout = sys.stderr = None
        return
    for number in (1, 2):
        os.dup2(kept, number)


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        if batch_idx == 1:
            lose_output() if self.current_epoch == 0 else None
            self.print("läuft", self.global_step)
            self.trainer.print("läuft", self.global_step)
            warn("a warning that comes in a step", code="LT000")
        loss = self.layer(batch[0]).square().mean()
        self.log("loss", loss, prog_bar=True, on_step=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", self.layer(batch[0]).square().mean(), prog_bar=True)

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


if __name__ == "__main__":
    if HOW != "a deleted folder":
        os.chdir(FOLDER)
    bars = {"tqdm": TQDMProgressBar, "rich": RichProgressBar}
    callbacks = [
        EarlyStopping("val", verbose=True),
        ModelCheckpoint(FOLDER / "läuft", monitor="val", verbose=True),
        RichModelSummary(),
        Timer("1 h"),
        *([bars[BAR]()] if BAR in bars else []),
    ]
    loggers = [pl.loggers.CSVLogger(FOLDER), *([] if HOW == "closed streams" else [pl.loggers.StdoutLogger()])]
    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=2, callbacks=callbacks, logger=loggers, profiler="simple", log_every_n_steps=1
    )
    data = DataLoader(TensorDataset(torch.arange(32.0).reshape(8, 4)), 2)
    net = Net()
    trainer.fit(net, data, data)
    trainer.test(net, data, verbose=True)
    trainer.validate(net, data)
    trainer.profiler.describe()
    (FOLDER / f"trained {trainer.global_step}").touch()
