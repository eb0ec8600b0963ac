"""Draw docs/images/log-axes.svg: the same two runs along the optimizer step, the samples and the epoch.

uv run python tools/axes.py    trains twice for each axis on scikit-learn's digits (seconds), and writes the picture
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt_cli.runs.metrics import RunMetrics, read_run
from lt_loggers import CSVLogger

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "log-axes.svg"
AXES = {"step": "optimizer step (default)", "samples": "samples", "epoch": "epoch"}
BATCHES = (32, 128)


class Digits(pl.LightningModule):
    """A small classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("val_loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def train(axis: str, batch_size: int, folder: str) -> RunMetrics:
    """Train for four epochs, and return what the logger has along ``axis``."""
    pl.seed_everything(1, verbose=False)
    x, y = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y))
    parts = torch.utils.data.random_split(data, [1280, len(data) - 1280])
    trainer = pl.Trainer(
        max_epochs=4,
        accelerator="cpu",
        logger=CSVLogger(folder, name=axis, version=f"batch_{batch_size}"),
        log_every_n_steps=1,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.log_axis = axis
    trainer.fit(Digits(), DataLoader(parts[0], batch_size, shuffle=True), DataLoader(parts[1], 256))
    return read_run(Path(trainer.log_dir or ""))


def draw(folder: str) -> Figure:
    """Return the picture: a panel for each axis, a colour for each batch size."""
    figure = Figure(figsize=(9.6, 3.1), layout="constrained")
    for number, (axis, title) in enumerate(AXES.items(), 1):
        panel = figure.add_subplot(1, 3, number)
        for colour, size in zip(("C0", "C1"), BATCHES, strict=True):
            curves = train(axis, size, folder).curves
            panel.plot(*zip(*curves["train_loss"], strict=True), color=colour, alpha=0.35, linewidth=1)
            panel.plot(
                *zip(*curves["val_loss"], strict=True), "o-", color=colour, label=f"batches of {size}", markersize=4
            )
        panel.set_title(f'log_axis = "{axis}"', fontsize=10)
        panel.set_xlabel(title)
        panel.grid(alpha=0.3)
        if axis == "epoch":
            panel.set_xticks(range(4))
    figure.axes[0].set_ylabel("loss: training (thin), validation (dots)", fontsize=8)
    figure.axes[0].legend(fontsize=8)
    return figure


if __name__ == "__main__":
    mpl.rcParams.update({"svg.hashsalt": "lt", "svg.fonttype": "none"})
    with TemporaryDirectory() as folder:
        draw(folder).savefig(sys.argv[1] if len(sys.argv) > 1 else PICTURE, metadata={"Date": None})
