"""Draw docs/images/killed.svg: a training killed at random moments, on the curve of the one that nobody killed.

uv run python tools/killed.py    trains a small convolutional network on scikit-learn's digits twice (two minutes): once
                                 undisturbed, once killed by SIGKILL and started again until it ends

The picture's figures (kills, steps done twice, weights that differ) are those of the run that drew it.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.callbacks import ModelCheckpoint

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "killed.svg"
KILLS = 6
EPOCHS = 8
PAUSE = 0.02  # seconds a batch takes longer, so that a kill has something to hit
COLOURS = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2"]


class Digits(pl.LightningModule):
    """A network that depends on everything a resume must bring back: dropout, batch norm, momentum, a schedule."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 16, 10),
        )  # fmt: skip

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        images = batch[0] + 0.2 * torch.randn_like(batch[0])
        return nn.functional.cross_entropy(self.net(images), batch[1])

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS)
        return {"optimizer": optimizer, "lr_scheduler": schedule}


class Losses(pl.Callback):
    """Writes each step's loss to a file of this process."""

    def __init__(self, path: Path, pause: float) -> None:
        self.file, self.pause = path.open("w"), pause

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.file.write(f"{trainer.global_step} {outputs['loss'].item()!r}\n")
        self.file.flush()
        time.sleep(self.pause)


def train(folder: Path, losses: Path, pause: float) -> None:
    """Train to the end, from where the last process in this folder was killed."""
    pl.seed_everything(7)
    data = load_digits()
    images = torch.from_numpy(data.images).float().unsqueeze(1) / 16  # shape (1797, 1, 8, 8)
    loader = DataLoader(TensorDataset(images, torch.from_numpy(data.target)), batch_size=64, shuffle=True)
    trainer = pl.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[Losses(losses, pause), ModelCheckpoint(folder, every_n_train_steps=10, save_last=True)],
    )  # fmt: skip
    model = Digits()
    trainer.fit(model, loader, ckpt_path="auto")
    torch.save(model.state_dict(), folder / "weights.pt")


def losses_of(path: Path) -> dict[int, float]:
    """Return the losses in a file by step; a line that the kill cut off is left out."""
    rows = [line.split() for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return {int(step): float(loss) for step, loss in rows}


def start(folder: Path, losses: Path, pause: float) -> subprocess.Popen[bytes]:
    """Start the training in a process of its own."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, __file__, str(folder), str(losses), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def killed_runs(root: Path) -> list[dict[int, float]]:
    """Train, kill at a random moment, start again, until it ends; return the losses of each process."""
    chance, found = random.Random(3), []
    for number in range(KILLS + 1):
        losses = root / f"losses-{number}.txt"
        process = start(root / "killed", losses, PAUSE)
        if number < KILLS:
            steps = chance.randint(18, 48)
            while not (losses.exists() and losses.read_bytes().count(b"\n") >= steps):
                assert process.poll() is None, "the training ended before it was killed"
                time.sleep(0.01)
            time.sleep(chance.uniform(0, PAUSE))
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        found.append(losses_of(losses))
    return found


def draw(whole: dict[int, float], parts: list[dict[int, float]], differing: int, values: int) -> None:
    """Write the picture."""
    mpl.rcParams["svg.hashsalt"] = "lt"
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(list(whole), list(whole.values()), color="#c8c8c8", linewidth=5, label="never stopped")
    for number, part in enumerate(parts):
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(list(part), list(part.values()), color=colour, linewidth=1.2)
        if number < len(parts) - 1:
            axes.axvline(max(part), color=colour, linewidth=0.8, linestyle=":")
            axes.annotate("kill -9", (max(part), 1), xycoords=("data", "axes fraction"), xytext=(3, -10),
                          textcoords="offset points", fontsize=8, color=colour)  # fmt: skip
    twice = sum(len(part) for part in parts) - len(whole)
    axes.plot(
        [], [], color=COLOURS[0], linewidth=1.2, label=f"killed {KILLS} times, started again ({len(parts)} colours)"
    )
    axes.set(xlabel="optimizer step", ylabel="training loss", yscale="log")
    title = f"{twice} steps done twice, 0 losses off the curve; at the end {differing} of {values:,} weights differ"
    axes.set_title(title, fontsize=11, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.93))
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    """Train both ways, compare, draw."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        start(root / "whole", root / "whole.txt", 0.0).wait()
        whole, parts = losses_of(root / "whole.txt"), killed_runs(root)
        off = [step for part in parts for step, loss in part.items() if whole[step] != loss]
        assert not off, f"losses off the curve at steps {off}"
        one, other = (torch.load(root / name / "weights.pt", weights_only=True) for name in ("whole", "killed"))
        differing = sum(int((one[name] != other[name]).sum()) for name in one)
        draw(whole, parts, differing, sum(value.numel() for value in one.values()))
    print(f"{PICTURE}: {len(whole)} steps, {len(parts)} processes, {differing} weights differ")


if __name__ == "__main__":
    train(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])) if len(sys.argv) > 1 else main()
