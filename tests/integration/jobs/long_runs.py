"""Many fits, many logged values, many tiny epochs in one process; prints what it holds at each look, as JSON."""

import gc
import json
import os
import sys
import threading
import time
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl

warnings.simplefilter("ignore")
torch.set_num_threads(1)
PAGE = os.sysconf("SC_PAGE_SIZE")


def held():
    """Memory in kB, file descriptors, threads, children, objects that Python's collector knows."""
    gc.collect()
    me = f"/proc/{os.getpid()}"
    return {
        "kB": int(Path(me, "statm").read_text().split()[1]) * PAGE // 1024,
        "descriptors": len(list(Path(f"{me}/fd").iterdir())),
        "threads": threading.active_count(),
        "children": len(Path(f"{me}/task/{os.getpid()}/children").read_text().split()),
        "objects": len(gc.get_objects()),
    }


class Looks(pl.Callback):
    """Looks at the process at some steps or epochs."""

    def __init__(self, steps=(), epochs=()):
        self.steps, self.epochs, self.seen = set(steps), set(epochs), []

    def on_train_batch_end(self, trainer, *args):
        if trainer.global_step in self.steps:
            self.seen.append(held())

    def on_train_epoch_end(self, trainer, *args):
        if trainer.current_epoch in self.epochs:
            self.seen.append(held())


class Net(pl.LightningModule):
    def __init__(self, keys=1):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.names = [f"value_{number}" for number in range(keys)]

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch[0]).square().mean()
        for name in self.names:
            self.log(name, loss, on_step=True, on_epoch=True, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", self.layer(batch[0]).mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def loader(samples, **arguments):
    return DataLoader(TensorDataset(torch.ones(samples, 4)), 2, **arguments)


def main(folder, fits, steps, epochs):
    sys.stderr = sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 bars and all: what they keep is kept there too
    report, seen = {}, []
    quiet = {"accelerator": "cpu", "default_root_dir": folder}
    for number in range(fits):
        workers = {"num_workers": 1} if number % 10 == 0 else {}
        pl.Trainer(max_epochs=2, **quiet).fit(Net(), loader(8, **workers), loader(4))
        seen.append(held())
    report["fits"] = seen

    looks = Looks(steps=range(steps // 10, steps + 1, steps // 10))
    pl.Trainer(max_epochs=1, log_every_n_steps=1, callbacks=[looks], **quiet).fit(Net(keys=10), loader(2 * steps))
    report["steps"] = looks.seen

    looks = Looks(epochs=range(epochs // 10 - 1, epochs, epochs // 10))
    saves = pl.callbacks.ModelCheckpoint(every_n_epochs=100)
    trainer = pl.Trainer(max_epochs=epochs, callbacks=[looks, saves], **quiet)
    trainer.fit(Net(), loader(2), loader(2))
    report["epochs"] = looks.seen
    time.sleep(0.1)
    report["end"] = held()
    print(json.dumps(report), file=sys.__stdout__)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
