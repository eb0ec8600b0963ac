"""Trains until a scheduler signals its whole group: ``group_signalled.py FOLDER WORKERS HANG METHOD``."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import lt as pl
from lt_loops.run import signals

FOLDER, WORKERS, HANG, METHOD = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, signal.SIG_DFL)  # nohup and CI runners hand some on as ignored, which lt respects
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)


class Numbers(Dataset):
    """16 samples of 4 numbers; sample 9 comes late or never, as ``HANG`` says."""

    def __init__(self, hangs):
        self.hangs = hangs

    def __len__(self):
        return 16

    def __getitem__(self, index):
        if self.hangs and index == 9 and not (FOLDER / "resumed").exists():
            HANGS[HANG]()
        return torch.full((4,), index / 16)


def ready(*numbers):
    draft = FOLDER / "draft"
    draft.write_text(" ".join(map(str, numbers)))
    draft.rename(FOLDER / "ready")


def never():
    ready(os.getpid())
    while True:
        time.sleep(60)


def in_a_moment():
    ready(os.getpid())
    end = time.monotonic() + 3
    while time.monotonic() < end:
        time.sleep(0.01)


def by_a_child():
    child = subprocess.Popen(["sleep", "3600"])  # ends by the group's signal, or the test hangs
    ready(child.pid)
    (FOLDER / "child").write_text(str(child.wait()))


def by_a_shell():
    ready()
    (FOLDER / "child").write_text(str(-(os.system("exec sleep 3600") & 0x7F)))


def by_a_fork():
    child = os.fork()
    if child == 0:
        time.sleep(3600)
        os._exit(0)
    ready(child)
    (FOLDER / "child").write_text(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))


HANGS = {
    "training": never,
    "validation": never,
    "late": in_a_moment,
    "child": by_a_child,
    "shell": by_a_shell,
    "fork": by_a_fork,
    "handler": never,
}


def own_handler(worker):
    def end(number, frame):
        (FOLDER / "child").write_text(str(-number))
        os._exit(0)

    signal.signal(signal.SIGTERM, end)


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def on_train_batch_end(self, outputs, batch, batch_idx):
        (FOLDER / f"step {self.global_step}").touch()

    def validation_step(self, batch, batch_idx):
        self.log("val", self.layer(batch).square().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def loader(hangs):
    more = {"multiprocessing_context": METHOD, "worker_init_fn": own_handler if HANG == "handler" else None}
    return DataLoader(Numbers(hangs), 2, num_workers=WORKERS, **(more if WORKERS else {}))


if __name__ == "__main__":
    if HANG in ("training", "validation"):
        signals._PAUSE /= 10  # what hangs does so for good: looks may follow one another faster
    pl.seed_everything(1, verbose=False)
    off = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    more = {"num_sanity_val_steps": 0, "val_check_interval": 3} if HANG == "validation" else {}
    trainer = pl.Trainer(accelerator="cpu", max_epochs=2, default_root_dir=FOLDER, **off, **more)
    net = Net()
    validation = {"val_dataloaders": loader(hangs=True)} if HANG == "validation" else {}
    trainer.fit(net, loader(hangs=HANG != "validation"), ckpt_path="auto", **validation)
    torch.save(net.state_dict(), FOLDER / "end.pt")
