"""Other trainers beside lt: how much longer a bare training step takes than in the loop written by hand.

    uv run benchmarks/peers.py [PEER ...] [--rounds 5] [--plot FILE.svg]

Each peer runs in a process with its own packages (``uv run --with``), and takes turns of 50 steps there with the
hand-written loop of row A: MLP 64-64-10, batch 32, SGD, one thread, batches made beforehand, 10th percentile. All
switch off what they can (logger, bar, checkpoint); the trained weights must be the loop's, bit for bit (Keras, which
has its own layers and optimizer: to rounding).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import logging
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from figure import Figure, table
from steps import Batch, ByHand, Net, Timed, make_batches, note, quiet, same_weights, train
from torch import nn


def layers() -> nn.Module:
    """Return the MLP of row A with its first weights."""
    torch.manual_seed(0)
    return Net().layers


def lt(loader: Timed) -> nn.Module:
    """Train by lt."""
    loader.times, module = train(loader.batches, Net, loader.other)
    return module


def lightning(loader: Timed) -> nn.Module:
    """Train by Lightning's Trainer."""
    import lightning as L  # noqa: N812  (its own documentation's name)

    class Module(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers()

        def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    module = Module()
    L.Trainer(accelerator="cpu", max_epochs=1, **off).fit(module, loader)
    return module


def fabric(loader: Timed) -> nn.Module:
    """Train by Lightning Fabric."""
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu")
    net = layers()
    model, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.01))
    for x, y in loader:
        optimizer.zero_grad()
        fabric.backward(nn.functional.cross_entropy(model(x), y))
        optimizer.step()
    return net


def accelerate(loader: Timed) -> nn.Module:
    """Train by Accelerate."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    net = layers()
    model, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.01))
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(nn.functional.cross_entropy(model(x), y))
        optimizer.step()
    return net


def ignite(loader: Timed) -> nn.Module:
    """Train by Ignite's supervised trainer."""
    from ignite.engine import create_supervised_trainer

    net = layers()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    create_supervised_trainer(net, optimizer, nn.functional.cross_entropy).run(loader, max_epochs=1)
    return net


def skorch(loader: Timed) -> nn.Module:
    """Train by skorch's net, whose own iterator over a dataset is replaced by the batches."""
    from skorch import NeuralNetClassifier

    class Made(NeuralNetClassifier):  # type: ignore[misc]
        def get_iterator(self, dataset: Any, training: bool = False) -> Any:
            return loader

    made = Made(
        layers(),
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.SGD,
        lr=0.01,
        max_epochs=1,
        train_split=None,
        verbose=0,
        callbacks__valid_acc=None,
        callbacks__print_log=None,
    )
    made.fit(*loader.batches[0])  # the data of the iterator above is what is trained on
    return made.module_


def transformers(loader: Timed) -> nn.Module:
    """Train by the Trainer of transformers, on a module that returns its loss."""
    from transformers import Trainer, TrainingArguments

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers()

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": nn.functional.cross_entropy(self.layers(x), labels)}

    batches: Any = loader.batches
    if (hand := loader.other) is not None:
        loader.other = lambda block: hand([(batch["x"], batch["labels"]) for batch in block])  # type: ignore[call-overload]
    loader.batches = [{"x": x, "labels": y} for x, y in batches]  # type: ignore[misc]

    class Made(Trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            return loader

    module = Classifier()
    off: dict[str, Any] = {"report_to": "none", "logging_strategy": "no", "save_strategy": "no", "disable_tqdm": True}
    arguments = TrainingArguments(".", max_steps=len(batches), use_cpu=True, max_grad_norm=0.0, **off)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    Made(module, arguments, train_dataset=batches, optimizers=(optimizer, constant)).train()
    return module


def keras(loader: Timed) -> nn.Module:
    """Train by Keras on its torch backend: its own layers and optimizer, so the weights are the loop's to rounding."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    net = layers()
    first, last = net[0], net[2]
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
    values = [tensor.detach().numpy() for layer in (first, last) for tensor in (layer.weight.T, layer.bias)]
    model.set_weights(values)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss, jit_compile=False)
    model.fit(iter(loader), steps_per_epoch=len(loader), epochs=1, verbose=0)
    weight, bias, weight_2, bias_2 = (torch.tensor(value) for value in model.get_weights())
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), (weight.T, bias, weight_2.T, bias_2), strict=True):
            parameter.copy_(value)
    return net


PEERS: dict[str, tuple[Callable[[Timed], nn.Module], str]] = {
    "lt": (lt, ""),
    "lightning": (lightning, "lightning"),
    "fabric": (fabric, "lightning"),
    "accelerate": (accelerate, "accelerate"),
    "ignite": (ignite, "pytorch-ignite"),
    "skorch": (skorch, "skorch"),
    "transformers": (transformers, "transformers[torch]"),
    "keras": (keras, "keras"),
}
"""Each peer's training, and the distribution that brings it."""


def close_weights(one: nn.Module, other: nn.Module) -> None:
    """Fail unless both hold the same weights to rounding."""
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Take turns in this process; return the figures and the version."""
    training, distribution = PEERS[name]
    compare = close_weights if name == "keras" else same_weights
    torch.set_num_threads(1)
    batches = make_batches(1500)
    warnings.simplefilter("ignore")
    figure = Figure("", name, "µs", float("inf"), "ratio")
    with tempfile.TemporaryDirectory() as folder, quiet():
        os.chdir(folder)  # some leave files where they run
        training(Timed(batches[:200], ByHand(set_none=False)))
        for _ in range(rounds):
            hand = ByHand(set_none=False)
            loader = Timed(batches, hand)
            compare(hand.net, training(loader))
            note(figure, hand.times, loader.times)
        os.chdir(Path(__file__).parent)
    version = importlib.metadata.version(distribution.partition("[")[0] or "lt")
    return {"by_hand": figure.by_hand, "ours": figure.ours, "version": version}


def launch(name: str, rounds: int) -> Figure:
    """Measure a peer in a process that has its packages on top of the project's."""
    distribution = PEERS[name][1]
    python = ["uv", "run", "--no-sync", "--with", distribution, "python"] if distribution else [sys.executable]
    command = [*python, __file__, "--one", name, "--rounds", str(rounds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    what = f"{name} {found['version']}, bare step"
    return Figure("", what, "µs", float("inf"), "ratio", by_hand=found["by_hand"], ours=found["ours"])


def plot(figures: list[Figure]) -> str:
    """Return bars of how long a step of each takes, the loop by hand a line, as SVG."""
    zero, scale, rows = 180, 440 / max(figure.value for figure in figures), []
    for i, figure in enumerate(figures):
        y, long = 40 + i * 30, figure.value * scale
        rows.append(
            f'<text x="10" y="{y + 15}">{figure.what.removesuffix(", bare step")}</text>'
            f'<rect x="{zero}" y="{y}" width="{long:.1f}" height="20" fill="#4c72b0"/>'
            f'<text x="{zero + max(long, scale) + 6:.1f}" y="{y + 15}">{figure.value:.2f}</text>'
        )
    by_hand = zero + scale
    rows.append(f'<path d="M{by_hand:.1f} 34V{40 + 30 * len(figures)}" stroke="#c44e52" stroke-width="2"/>')
    height = 50 + 30 * len(figures)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{height}" font-family="sans-serif" '
        f'font-size="13"><rect width="720" height="{height}" fill="white"/>'
        '<text x="10" y="22">A bare training step, times the loop by hand (the line)</text>'
        f"{''.join(rows)}</svg>\n"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", help=" ".join(PEERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plot", type=Path, help="file for a plot, SVG")
    parser.add_argument("--one", choices=PEERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args.rounds)))
        return
    figures = [launch(name, args.rounds) for name in args.peers or PEERS]
    print(table(figures))
    if args.plot is not None:
        args.plot.write_text(plot(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
