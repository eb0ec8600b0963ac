"""How far a thing walks: modules entered, and returns to one that was entered before, while it really runs.

uv run python tools/walks.py

A report, no gate: a file that is split for clarity makes a walk longer. A call of a function of ours is a stay in its
module; the returns are the changes of module beyond the first stay in each. Only the main thread counts, after a first
run of the same kind, so that imports do not count. The last line says how many tokens of ours a plain fit loads.
"""

import ast
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import warnings
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

import lt
from lt_core import LightningModule, Strategy

HOUSE = runpy.run_path(str(Path(__file__).parent / "house.py"))
QUIET = {"accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False}
SETTINGS: dict[str, dict[str, Any]] = {
    "all off": {**QUIET, "logger": False, "enable_checkpointing": False},
    "CSV and ModelCheckpoint": {**QUIET, "logger": "csv"},
}


class Walk:
    """Notes the module of each call of ours between :meth:`start` and :meth:`stop`.

    Args:
        until: a walk ends when an object of this type is returned.
    """

    def __init__(self, until: type[object] | None = None) -> None:
        self.entered: list[str] = []
        self.until, self.thread = until, threading.get_ident()

    def start(self) -> None:
        """Begin to note."""
        self.entered.clear()
        sys.setprofile(self._watch)

    def stop(self) -> None:
        """Note nothing more."""
        sys.setprofile(None)

    def _watch(self, frame: FrameType, event: str, value: Any) -> None:
        if threading.get_ident() != self.thread:
            return
        if event == "return" and self.until is not None and isinstance(value, self.until):
            self.stop()
        name = frame.f_globals.get("__name__", "")
        if event == "call" and (name.partition(".")[0] == "lt" or name.startswith("lt_")):
            self.entered.append(name)

    def report(self, what: str) -> None:
        """Print the figures of the last walk."""
        stays = self.entered[:1] + [after for before, after in pairwise(self.entered) if after != before]
        modules = len(set(stays))
        print(f"{what:72} {modules:4} modules {len(stays) - modules:5} returns")


walk = Walk()


class Net(LightningModule):
    """A small model that logs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        loss: torch.Tensor = self.layer(batch).pow(2).mean()
        self.log("loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        return loss

    def validation_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        self.log("val", self.layer(batch).pow(2).mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Requests(Net):
    """Walks from a request of a save to the next batch."""

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == 3:
            walk.start()
            self.trainer.request_save("a.ckpt")

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        if batch_idx == 4:
            walk.stop()


class Saves(Net):
    """Walks through a save in a hook."""

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == 3:
            walk.start()
            self.trainer.save_checkpoint("b.ckpt")
            walk.stop()


class EndsEpoch(Net):
    """Walks from the last batch of an epoch to the next epoch."""

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == 7:
            walk.start()

    def on_train_epoch_start(self) -> None:
        if self.trainer.current_epoch == 1:
            walk.stop()


class Begins(Net):
    """Ends a walk that began before ``fit``."""

    def on_train_start(self) -> None:
        walk.stop()


def fit(kind: type[Net], settings: dict[str, Any], *, validates: bool = False, begin: bool = False, **how: Any) -> None:
    """Fit two epochs of eight batches; ``begin`` starts the walk before ``fit``."""
    trainer = lt.Trainer(max_epochs=2, **settings)
    batches = [torch.ones(2, 8) for _ in range(8)]
    if begin:
        walk.start()
    trainer.fit(kind(), batches, batches[:2] if validates else None, **how)


PLAIN_FIT = """
import sys, torch, lt
class Net(lt.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).pow(2).mean()
        self.log("loss", loss)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
quiet = dict(accelerator="cpu", enable_progress_bar=False, enable_model_summary=False)
lt.Trainer(max_epochs=1, logger="csv", **quiet).fit(Net(), [torch.ones(2, 8)] * 4)
ours = [m for n, m in list(sys.modules.items()) if n.partition(".")[0] == "lt" or n.startswith("lt_")]
print("FILES", [m.__file__ for m in ours if getattr(m, "__file__", None)])
"""


def loaded_tokens() -> int:
    """Return the tokens of code in the modules of ours that a plain fit with CSV and a checkpoint has loaded."""
    command = [sys.executable, "-W", "ignore", "-c", PLAIN_FIT]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    files = ast.literal_eval(next(line for line in said.splitlines() if line.startswith("FILES "))[6:])
    return sum(HOUSE["tokens"](Path(file)) for file in files)


def main() -> None:
    """Walk each way once and print it."""
    warnings.filterwarnings("ignore")
    os.chdir(tempfile.mkdtemp())
    two: dict[str, Any] = {"strategy": "ddp", "accelerator": "cpu", "devices": 2, "max_epochs": 1}
    lt.Trainer(**two)
    for what, taken in (("strategy='ddp' to the Strategy", Walk(until=Strategy)), ("Trainer(strategy='ddp')", walk)):
        taken.start()
        lt.Trainer(**two)
        taken.stop()
        taken.report(what)
    for name, settings in SETTINGS.items():
        fit(Net, settings, validates=True)
        fit(Requests, settings)
        walk.report(f"request_save to the next batch, {name}")
        fit(Saves, settings)
        walk.report(f"save_checkpoint in a hook, {name}")
        fit(EndsEpoch, settings, validates=True)
        walk.report(f"last batch to the next epoch, with validation, {name}")
        fit(Begins, settings, begin=True)
        walk.report(f"fit() to on_train_start, {name}")
        fit(Begins, settings, begin=True, ckpt_path="a.ckpt")
        walk.report(f"fit(ckpt_path=) to on_train_start, {name}")
    print(f"{loaded_tokens() / 1000:.0f}k tokens of ours are loaded by a plain fit with CSV and a checkpoint")


if __name__ == "__main__":
    main()
