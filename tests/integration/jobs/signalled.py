"""Trains in a fork for each signal, which the process sends itself in the middle of an epoch; prints what was left."""

import json
import os
import signal
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl

for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, signal.SIG_DFL)  # nohup and CI runners hand some on as ignored, which lt respects
signal.signal(signal.SIGINT, signal.default_int_handler)
warnings.simplefilter("ignore")
torch.set_num_threads(1)


class Net(pl.LightningModule):
    """A net with dropout that sends its process ``sends`` in batch 11; notes what the file ``said`` then holds."""

    def __init__(self, sends=(), said=None):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.sends = list(sends)
        self.said, self.said_at_once = said, ""

    def training_step(self, batch, batch_idx):
        if self.sends and self.trainer.global_step == 11:
            for number in self.sends:
                os.kill(os.getpid(), number)
                time.sleep(0.01)
                self.said_at_once = self.said.read_text() if self.said else ""
        return self.layers(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.arange(256.0).reshape(64, 4) / 256), 8, shuffle=True)


class Validated(Net):
    """Gets its signal in the first batch of the sanity check."""

    def validation_step(self, batch, batch_idx):
        if self.sends:
            os.kill(os.getpid(), self.sends.pop())

    def val_dataloader(self):
        return self.train_dataloader()


def fit(folder, sends=(), said=None, net=Net, on_signal="exit", **arguments):
    pl.seed_everything(3, verbose=False)
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    trainer = pl.Trainer(accelerator="cpu", max_epochs=3, default_root_dir=folder, **quiet, **arguments)
    trainer.on_signal = on_signal
    net = net(sends, said)
    trainer.fit(net, ckpt_path="auto")
    torch.save(net.state_dict(), Path(folder, "end.pt"))
    return trainer


def forked(action, *arguments):
    """Do ``action(*arguments)`` in a child, as a script of its own would; return its exit status."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 0
        try:
            action(*arguments)
        except SystemExit as error:
            status = int(error.code)
        except KeyboardInterrupt:
            status = 99
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def returns(folder):
    """With ``trainer.on_signal = "return"`` the script goes on, and the same Trainer with it."""
    before = signal.getsignal(signal.SIGTERM)
    trainer = fit(folder, [signal.SIGTERM], on_signal="return")
    assert trainer.interrupted
    assert trainer.received_sigterm
    assert trainer.global_step == 12
    assert signal.getsignal(signal.SIGTERM) is before
    trainer.fit(trainer.lightning_module)
    assert not trainer.interrupted
    assert trainer.global_step == 24


def says(folder, number, **arguments):
    """Write down what was said by the end of the step in which a signal came, and by the end of the run."""
    folder.mkdir()
    said = os.open(folder / "said", os.O_CREAT | os.O_RDWR)
    os.dup2(said, 2)
    trainer = fit(folder, [number], folder / "said", on_signal="return", **arguments)
    net = trainer.lightning_module
    (folder / "report").write_text(json.dumps([net.said_at_once, (folder / "said").read_text()]))


def main(root):
    report = {}
    torch.optim.Adam([torch.zeros(1)])  # imports what an optimizer needs, once for all children
    forked(fit, root / "whole")
    for name in ("SIGTERM", "SIGUSR1", "SIGHUP", "SIGINT"):
        folder = root / name
        status = forked(fit, folder, [getattr(signal, name)])
        left = sorted(path.name for path in folder.glob("checkpoints/*.ckpt"))
        again = forked(fit, folder)
        kept = sorted(path.name for path in folder.glob("checkpoints/*.ckpt"))
        report[name] = [status, left, again, kept]
    report["twice"] = forked(fit, root / "twice", [signal.SIGINT, signal.SIGINT])
    report["return"] = forked(returns, root / "return")
    for name in ("SIGINT", "SIGTERM"):
        folder = root / f"says {name}"
        assert forked(says, folder, getattr(signal, name)) == 0
        report[folder.name] = json.loads((folder / "report").read_text())
    assert forked(partial(says, enable_checkpointing=False), root / "no files", signal.SIGINT) == 0
    report["no files"] = json.loads((root / "no files" / "report").read_text())
    assert forked(partial(says, net=Validated), root / "sanity", signal.SIGINT) == 0
    report["sanity"] = json.loads((root / "sanity" / "report").read_text())
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
