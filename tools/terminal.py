"""Draw what a fit looks like in a terminal and in a notebook: docs/images/terminal-*.svg and notebook-*.png.

uv run python tools/terminal.py             terminals of 80 and 120 columns (needs tmux); prints the log of a batch job
uv run --with ipykernel,nbconvert,ipywidgets python tools/terminal.py notebook
                                            with widgets and without (needs chromium, and npm for the widgets)
uv run python tools/terminal.py train 8     what the pictures show, with so many metrics
"""

import os
import shutil
import subprocess
import sys
import time
from importlib import import_module
from io import StringIO
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

PICTURES = Path(__file__).parent.parent / "docs" / "images"
METRICS = ("loss", "accuracy", "f1", "auroc", "precision", "recall", "error")
PATIENCE = 120  # seconds
EPOCHS = 8
SHOT = "Epoch 4/"  # what stands in the line when the picture is taken
NPM = ("@jupyter-widgets/html-manager", "requirejs")


def train(count: int, epochs: int = EPOCHS) -> None:
    """Fit a line to points; slowly, and with so many metrics."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    import lt as pl
    from lt.callbacks import ModelCheckpoint

    class Line(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.features, self.head = torch.nn.Linear(16, 64), torch.nn.Linear(64, 1)

        def forward(self, x: Any) -> Any:
            time.sleep(0.03)
            return self.head(self.features(x)).squeeze(1)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = (self(batch[0]) - batch[1]).square().mean()
            self.log("train_loss", loss, prog_bar=True, on_step=True, on_epoch=True)
            return loss

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            loss = (self(batch[0]) - batch[1]).square().mean()
            for i, name in enumerate(METRICS[: count - 1]):
                self.log(f"val_{name}", loss if i in (0, 6) else (1 - loss / (3 + i)).clamp(min=0), prog_bar=True)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.004)

    pl.seed_everything(0)
    x = torch.randn(1280, 16)
    data = TensorDataset(x, x.sum(1) / 4 + torch.randn(1280) / 3)
    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=epochs, logger="csv", callbacks=[ModelCheckpoint(monitor="val_loss")]
    )
    trainer.fit(Line(), DataLoader(data, 32, shuffle=True), DataLoader(data, 128))


def on_terminal(columns: int, count: int, folder: str) -> str:
    """Return what a terminal shows in the middle of the fit, with its colours."""
    name = f"lt{os.getpid()}"
    command = f"COLORTERM=truecolor {sys.executable} {Path(__file__).resolve()} train {count}; sleep {PATIENCE}"
    size = ["-x", str(columns), "-y", "30"]
    subprocess.run(["tmux", "new-session", "-d", "-s", name, *size, "-c", folder, command], check=True)
    try:
        text, end = "", time.monotonic() + PATIENCE
        while time.monotonic() < end:
            shown = subprocess.run(["tmux", "capture-pane", "-e", "-p", "-t", name], capture_output=True, check=True)
            text = shown.stdout.decode()
            last = text.rstrip().rpartition("\n")[2]
            if SHOT in last and "/40" in last and " 2" in last:
                return text.rstrip()
            time.sleep(0.05)
        raise SystemExit(f"{SHOT!r} never came:\n{text}")
    finally:
        subprocess.run(["tmux", "kill-session", "-t", name], check=False)


def draw(text: str, columns: int, target: Path, title: str) -> None:
    """Write text with escape codes as an SVG."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=columns, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"{text}\n"), soft_wrap=True)  # the line at the end is cut off at its foot
    console.save_svg(str(target), title=title)
    print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB")


def terminals(target: Path) -> None:
    """Draw two widths, with two metrics and with eight, and what a log holds."""
    for columns, count in product((80, 120), (2, 8)):
        with TemporaryDirectory() as folder:
            text = on_terminal(columns, count, folder)
        draw(text, columns, target / f"terminal-{columns}-{count}.svg", "python train.py")
    with TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).resolve()), "train", "4"]
        print(subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout)


def notebooks(target: Path) -> None:
    """Draw a notebook whose kernel has widgets, and one that has none."""
    with TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", *NPM], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        for archive in Path(folder).glob("*.tgz"):
            shutil.unpack_archive(archive, Path(folder, archive.name.split("-")[0]))
        manager = next(Path(folder).rglob("embed-amd.js"))
        require = next(Path(folder).rglob("package/require.js"))
        for kind in ("widgets", "text"):
            page = Path(folder, f"{kind}.html")
            page.write_text(executed(kind, folder, manager.as_uri(), require.as_uri()), "utf-8")
            picture = target / f"notebook-{kind}.png"
            shoot = [
                "--headless",
                "--no-sandbox",
                "--hide-scrollbars",
                "--window-size=900,430",
                "--allow-file-access-from-files",
            ]
            wait = ["--virtual-time-budget=8000", f"--screenshot={picture}", page.as_uri()]
            subprocess.run(["chromium", *shoot, *wait], check=True, stderr=subprocess.DEVNULL)
            print(f"{picture.name}: {picture.stat().st_size / 1000:.0f} kB")


def executed(kind: str, folder: str, manager: str, require: str) -> str:
    """Return a notebook with one fit, executed, as a page."""
    import nbformat
    from nbclient import NotebookClient

    exporting: Any = import_module("nbconvert")
    new = cast("Any", nbformat).v4
    hidden = (
        ""
        if kind == "widgets"
        else "from lt_callbacks.progress import progress_bar; progress_bar.find_spec = lambda name: None\n"
    )
    setup = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{hidden}from terminal import train"
    notebook = new.new_notebook(cells=[new.new_code_cell(setup), new.new_code_cell("train(4, epochs=5)")])
    client = NotebookClient(
        notebook, timeout=PATIENCE, resources={"metadata": {"path": folder}}, store_widget_state=True
    )
    client.execute()
    exporter = exporting.HTMLExporter(
        widget_renderer_url=manager, require_js_url=require, mathjax_url="", exclude_input_prompt=True
    )
    notebook.cells = notebook.cells[1:]
    return str(exporter.from_notebook_node(notebook)[0])


if __name__ == "__main__":
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # where lt is
    if sys.argv[1:2] == ["train"]:
        train(int(sys.argv[2]))
    elif sys.argv[1:2] == ["notebook"]:
        notebooks(Path(sys.argv[2]) if len(sys.argv) > 2 else PICTURES)
    else:
        terminals(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
