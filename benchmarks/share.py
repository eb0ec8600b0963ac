"""Whose code a default training step is in: samples of a profiler from outside, by the innermost frame.

    uv run --with py-spy benchmarks/share.py [--seconds 20]

The MLP of row A with bar, CSV logger, checkpoint and a logged loss (row A2), sampled 500 times a second. A sample
counts for lt where the innermost Python frame is lt's; time inside C++ counts for the line that called it, so that the
loop's ``loss.backward()`` is told apart.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import torch

LEGS = ("lt_core", "lt_loops", "lt_data", "lt_loggers", "lt_callbacks", "lt_strategies")
BACKWARD = "loss.backward()"


def train(steps: int) -> None:
    """Train in this process, to be looked at."""
    from steps import LoggedNet, make_batches

    import lt as pl

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(accelerator="cpu", max_steps=steps, max_epochs=-1, default_root_dir=folder, logger="csv")
        trainer.fit(LoggedNet(), make_batches(2000))


def shares(raw: str) -> tuple[Counter[str], int]:
    """Return samples by owner, and how many were in the loop; ``raw`` is py-spy's: frames by ``;``, then a count."""
    found: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if not any("train_epoch (" in frame for frame in frames):
            continue
        found[_owner(frames[-1])] += int(count)
    return found, sum(found.values())


def _owner(frame: str) -> str:
    """Return whose an innermost frame is: ``name (file:line)``."""
    place = frame.rpartition("(")[2].rstrip(")")
    package = next((name for name in LEGS if f"{name}/" in place), None)
    if package is None:
        return "torch" if "torch/" in place else "the user's step" if "steps.py" in place else "other"
    file, _, line = place.rpartition(":")
    source = next(Path(__file__).parent.parent.glob(f"packages/*/src/{file[file.index(package) :]}"))
    text = source.read_text("utf-8").splitlines()[int(line) - 1]
    return "backward" if BACKWARD in text else package


def main() -> None:
    """Sample and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--train", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        train(args.train)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "raw.txt"
        steps = str(args.seconds * 8000)
        watch = ["py-spy", "record", "-r", "500", "-f", "raw", "--full-filenames", "-o", str(file), "--"]
        run = [sys.executable, __file__, "--train", steps]
        subprocess.run([*watch, *run], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found, total = shares(file.read_text("utf-8"))
    for name, count in found.most_common():
        print(f"{name:20} {count / total:6.1%}")
    ours = sum(found[name] for name in LEGS)
    print(f"{'lt in all':20} {ours / total:6.1%} of {total} samples")


if __name__ == "__main__":
    main()
