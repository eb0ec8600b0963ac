"""Row D: what lt adds to the peak memory of a process, and whether 20,000 logged steps make it grow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from figure import Figure

PEAK = """
import sys, torch
torch.set_num_threads(1)
sys.path.insert(0, {folder!r})
import lt as pl, lt_core, lt_loops
from steps import make_batches, Net, train, train_by_hand
batches = make_batches(1000)
{what}
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1e3)
"""
BY_HAND = "train_by_hand(batches, set_none=False)"
BY_LT = "train(batches, Net)"
GROWTH = """
import os, resource, sys, tempfile, warnings
import torch
torch.set_num_threads(1)
warnings.simplefilter("ignore")
sys.path.insert(0, {folder!r})
import lt as pl
from steps import LoggedNet, make_batches
pages = []
class Watch(pl.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx in (5_000, 25_000):
            pages.append(int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize())
few = make_batches(50)
class Repeated:
    def __len__(self): return 25_001
    def __iter__(self): return (few[i % 50] for i in range(25_001))
with tempfile.TemporaryDirectory() as folder:
    pl.Trainer(accelerator="cpu", max_epochs=1, logger="csv", default_root_dir=folder, callbacks=[Watch()],
               enable_model_summary=False, enable_progress_bar=False,
               log_every_n_steps={every}).fit(LoggedNet(), Repeated())
print(round((pages[1] - pages[0]) / 20_000))
"""


def run(code: str, **words: str) -> float:
    """Run ``code`` in a process of its own; return the last number that it printed."""
    text = code.format(folder=str(Path(__file__).parent), **words)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", text], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def memory_rows(rounds: int = 5) -> list[Figure]:
    """Return the lines of row D, read from Linux's /proc; none elsewhere. Growth is rounded to bytes."""
    if sys.platform != "linux":
        return []
    peak = Figure("D", "peak memory of 1,000 bare steps, both with lt imported", "MB", 2.0)
    for _ in range(rounds):
        peak.turn(run(PEAK, what=BY_HAND), run(PEAK, what=BY_LT))
    growth = Figure("D", "growth over 20,000 logged steps", "bytes a step", 0.0, "plain")
    without = Figure("D", "the same without rows, which FitResult.history keeps", "bytes a step", 0.0, "plain")
    for _ in range(min(rounds, 3)):
        growth.turn(0.0, run(GROWTH, every="50"))
        without.turn(0.0, run(GROWTH, every="1_000_000"))
    return [peak, growth, without]
