"""Row G: training on one GPU in bfloat16 against a hand-written loop with pinned memory and lookahead.

    uv run nox -s bench -- --gpu [--rounds N] [--write docs/gpu.md] [--device cpu --small]

ResNet-18 and a small GPT, eager and compiled, and an MLP whose step is nothing but launches, plain and as CUDA graphs.
Both sides read the same pinned batches, which ask for the time, after the device has done what it was given, at a first
and at a last one; a turn is the time between. The synchronising calls in between are counted by torch in a run of
their own. ``--device cpu --small`` runs all of it but the graphs, to see that it works.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from figure import Figure, table
from nets import GPT, ResNet18
from page import machine, write
from steps import quiet
from torch import Tensor, nn
from torch.nn import functional

import lt as pl

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is trained.

    Args:
        name: of the line.
        make: the network.
        batch: one batch on the CPU: inputs, and classes with the shape of the logits without their last dimension.
        optimizer: made of the parameters; the same on both sides.
        steps: measured steps of one turn.
        warm: steps before them: compilation, workspaces, captures.
    """

    name: str
    make: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], Batch]
    optimizer: Callable[[Any], torch.optim.Optimizer]
    steps: int
    warm: int = 20


class Marked:
    """Pinned batches that note the time at two marks, when the device has done all that it was given.

    Args:
        case: what is trained.
        device: where the batches will go.
        counts: count synchronising calls between the marks, instead of the time.
    """

    def __init__(self, case: Case, device: torch.device, *, counts: bool = False) -> None:
        generator = torch.Generator().manual_seed(0)
        batches = [case.batch(generator) for _ in range(4)]
        on_cuda = device.type == "cuda"
        self.batches = [(x.pin_memory(), y.pin_memory()) if on_cuda else (x, y) for x, y in batches]
        self.case, self.device, self.counts = case, device, counts and on_cuda
        self.marks: list[float] = []
        self.syncs: list[str] = []

    def __len__(self) -> int:
        return self.case.warm + self.case.steps + 2

    def __iter__(self) -> Iterator[Batch]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for index in range(len(self)):
                if index in (self.case.warm, self.case.warm + self.case.steps):
                    self._mark(caught)
                yield self.batches[index % len(self.batches)]

    def _mark(self, caught: list[warnings.WarningMessage]) -> None:
        first = not self.marks
        if self.counts:
            torch.cuda.set_sync_debug_mode("default")
            found = [w for w in caught if "synchronizing" in str(w.message)]
            self.syncs = [] if first else [f"{Path(w.filename).name}:{w.lineno}" for w in found]
            caught.clear()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        self.marks.append(time.perf_counter())
        if self.counts and first:
            torch.cuda.set_sync_debug_mode("warn")

    @property
    def step(self) -> float:
        """Microseconds of one step."""
        return (self.marks[1] - self.marks[0]) / self.case.steps * 1e6


class Net(pl.LightningModule):
    """A case as a module."""

    def __init__(self, case: Case, *, logs: bool) -> None:
        super().__init__()
        self.net, self.case, self.logs = case.make(), case, logs

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss = functional.cross_entropy(self.net(batch[0]).flatten(0, -2), batch[1].flatten())
        if self.logs:
            self.log("loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.case.optimizer(self.parameters())


def by_hand(loader: Marked, *, compiled: bool = False) -> nn.Module:
    """Train by a loop with pinned memory, a side stream and a batch in advance, as good as people write it."""
    torch.manual_seed(0)
    device = loader.device
    net = loader.case.make().to(device)
    optimizer = loader.case.optimizer(net.parameters())

    def compute(x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return functional.cross_entropy(net(x).flatten(0, -2), y.flatten())

    step = torch.compile(compute) if compiled else compute
    for x, y in ahead(loader, device):
        loss = step(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net


def ahead(loader: Marked, device: torch.device) -> Iterator[Batch]:
    """Yield batches on ``device``; the next one's copy runs while the step computes."""
    if device.type != "cuda":
        yield from loader
        return
    side: Any = torch.cuda.Stream()
    upcoming: Any = None
    for batch in loader:
        if upcoming is not None:
            yield upcoming
        with torch.cuda.stream(side):
            moved = tuple(part.to(device, non_blocking=True) for part in batch)
        torch.cuda.current_stream().wait_stream(side)
        for part in moved:
            part.record_stream(torch.cuda.current_stream())
        upcoming = moved
    yield upcoming


def graph_by_hand(loader: Marked) -> nn.Module:
    """Train by a captured step, as torch's notes on CUDA graphs show it."""
    torch.manual_seed(0)
    device = loader.device
    net = loader.case.make().to(device)
    optimizer = loader.case.optimizer(net.parameters())
    x, y = (part.to(device) for part in loader.batches[0])

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            loss = functional.cross_entropy(net(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()

    side: Any = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for inputs, classes in ahead(loader, device):
        x.copy_(inputs, non_blocking=True)
        y.copy_(classes, non_blocking=True)
        graph.replay()
    return net


def by_lt(loader: Marked, *, logs: bool = False, **arguments: Any) -> nn.Module:
    """Train by lt, bare unless ``arguments`` ask for more."""
    torch.manual_seed(0)
    bare = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    net = Net(loader.case, logs=logs)
    with quiet(), tempfile.TemporaryDirectory() as folder:
        place = {"accelerator": loader.device.type, "devices": 1, "default_root_dir": folder}
        pl.Trainer(max_epochs=1, precision="bf16-mixed", **{**place, **bare, **arguments}).fit(net, loader)
    return net.net


def cases(*, small: bool) -> list[Case]:
    """Return ResNet-18, the GPT and the MLP; ``small`` for a look on a CPU."""
    size, side, texts, length, steps = (2, 32, 2, 16, 3) if small else (128, 224, 32, 256, 100)

    def images(generator: torch.Generator) -> Batch:
        return torch.randn(size, 3, side, side, generator=generator), torch.randint(
            0, 1000, (size,), generator=generator
        )

    def tokens(generator: torch.Generator) -> Batch:
        drawn = torch.randint(0, 256, (texts, length + 1), generator=generator)
        return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()

    return [
        Case(
            name="ResNet-18, bf16",
            make=ResNet18,
            batch=images,
            optimizer=lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9),
            steps=steps,
        ),
        Case(
            name="GPT of 11 M parameters, bf16",
            make=lambda: GPT(length=length),
            batch=tokens,
            optimizer=lambda params: torch.optim.AdamW(params, lr=3e-4, fused=True),
            steps=steps,
        ),
    ]


def tiny(*, small: bool) -> Case:
    """Return row A's MLP: a step of small kernels, where launches are all that there is."""

    def batch(generator: torch.Generator) -> Batch:
        return torch.randn(32, 64, generator=generator), torch.randint(0, 10, (32,), generator=generator)

    return Case(
        name="MLP 64-64-10, bf16",
        make=lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)),
        batch=batch,
        optimizer=lambda params: torch.optim.SGD(params, lr=0.01),
        steps=32 if small else 2000,
        warm=32,
    )


def same_result(case: Case, device: torch.device) -> None:
    """Fail unless both sides do the same: their weights after a few steps, up to rounding of bfloat16."""
    few = Case(name=case.name, make=case.make, batch=case.batch, optimizer=case.optimizer, steps=1, warm=1)
    for mine, theirs in zip(
        by_lt(Marked(few, device)).parameters(), by_hand(Marked(few, device)).parameters(), strict=True
    ):
        torch.testing.assert_close(mine.cpu(), theirs.cpu(), rtol=2e-2, atol=2e-2)


def syncs_of_ours(case: Case, device: torch.device, **arguments: Any) -> float:
    """Return the synchronising calls of a step that the loop by hand does not make; names them."""
    counted, expected = Marked(case, device, counts=True), Marked(case, device, counts=True)
    by_lt(counted, **arguments), by_hand(expected)
    ours = len(counted.syncs) - len(expected.syncs)
    if ours > 0:
        print(f"{case.name}: synchronising calls at {sorted(set(counted.syncs) - set(expected.syncs))}")
    return ours / case.steps


def gpu_rows(device: torch.device, rounds: int, *, small: bool) -> list[Figure]:
    """Return row G, after ``rounds`` in which both sides take turns."""
    figures = []
    sides: list[tuple[Figure, Case, Callable[[Marked], nn.Module], Callable[[Marked], nn.Module]]] = []

    def add(
        case: Case, what: str, hand: Callable[..., nn.Module], ours: Callable[..., nn.Module], budget: float
    ) -> None:
        figure = Figure("G", f"{case.name}{what}", "µs", budget, "ratio")
        figures.append(figure)
        sides.append((figure, case, hand, ours))

    free = float("inf")
    for case in cases(small=small):
        same_result(case, device)
        add(case, "", by_hand, by_lt, 1.01)
        add(case, ", compiled", lambda m: by_hand(m, compiled=True), lambda m: by_lt(m, compile=True), 1.01)
        add(case, ", CSV logger and self.log", by_hand, lambda m: by_lt(m, logs=True, logger="csv"), free)
    mlp = tiny(small=small)
    same_result(mlp, device)
    add(mlp, "", by_hand, by_lt, free)
    if device.type == "cuda":
        add(mlp, ", cuda_graphs, by hand a graph", graph_by_hand, lambda m: by_lt(m, cuda_graphs=True), free)
        grouped = {"cuda_graphs": 16}
        add(mlp, ", the same with 16 steps a graph", graph_by_hand, lambda m: by_lt(m, **grouped), free)
    for _ in range(rounds):
        for figure, case, hand, ours in sides:
            one, other = Marked(case, device), Marked(case, device)
            hand(one), ours(other)
            figure.turn(one.step, other.step)
    for case in [*cases(small=small), mlp]:
        counted = Figure("G", f"{case.name}: synchronising calls of ours in a step", "number", 0.0, "plain")
        counted.turn(0.0, syncs_of_ours(case, device))
        logged = Figure("G", f"{case.name}: the same with CSV logger and self.log", "number", free, "plain")
        logged.turn(0.0, syncs_of_ours(case, device, logs=True, logger="csv"))
        figures += [counted, logged]
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="small batches and few steps")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--write", type=Path, help="page to put the table into, such as docs/gpu.md")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here; --device cpu --small shows that it works")
    warnings.simplefilter("ignore")
    figures = gpu_rows(torch.device(args.device), args.rounds, small=args.small)
    print(table(figures))
    print(machine())
    if args.write is not None:
        write(figures, args.write, "G")


if __name__ == "__main__":
    main()
