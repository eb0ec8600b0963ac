"""Row G: training on one GPU in bfloat16 against a hand-written loop with pinned memory and lookahead.

    uv run nox -s bench -- --gpu [--rounds N] [--quick] [--write docs/gpu.md] [--device cpu --small]
    python benchmarks/gpu.py --report FILE              # the tests marked cuda too, and all of it into one page

ResNet-18 and a small GPT, eager and compiled, and an MLP whose step is nothing but launches, plain and as CUDA graphs.
Both sides read the same pinned batches. A turn is a part of a second: lt's data loader stops the clock when the device
has done what it was given, and lets the loop by hand do as many steps before it goes on, so that both meet the same
clock of the processor; the ratio is the median over the pairs. Synchronising calls are counted by torch in runs of
their own, and memory at its fullest in two more. What fails is named in a line, and the rest goes on; each line is
printed when it is measured.
``--device cpu --small`` runs all of it but the graphs, to see that it works.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from figure import MARKDOWN_HEAD, Figure, markdown_line, table
from nets import GPT, ResNet18
from page import existing, machine, write
from steps import quiet
from torch import Tensor, nn
from torch.nn import functional

import lt as pl
from lt_graphs import GraphSteps

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
    """Pinned batches with marks between which a case's steps lie; what is noted there is the caller's.

    Args:
        case: what is trained.
        device: where the batches will go.
        turns: how many times ``case.steps`` steps, after those to warm up.
        at_mark: called with the number of turns that are over, before the next batch is read.
    """

    def __init__(
        self, case: Case, device: torch.device, *, turns: int = 1, at_mark: Callable[[int], None] = lambda _: None
    ) -> None:
        generator = torch.Generator().manual_seed(0)
        batches = [case.batch(generator) for _ in range(4)]
        on_cuda = device.type == "cuda"
        self.batches = [(x.pin_memory(), y.pin_memory()) if on_cuda else (x, y) for x, y in batches]
        self.case, self.device, self.turns, self.at_mark = case, device, turns, at_mark

    def __len__(self) -> int:
        return self.case.warm + self.turns * self.case.steps + 2

    def __iter__(self) -> Iterator[Batch]:
        for index in range(len(self)):
            turn, over = divmod(index - self.case.warm, self.case.steps)
            if 0 <= turn <= self.turns and not over:
                self.at_mark(turn)
            yield self.batches[index % len(self.batches)]


class Counted(Marked):
    """Batches that count synchronising calls between two marks."""

    def __init__(self, case: Case, device: torch.device) -> None:
        super().__init__(case, device, at_mark=self._mark)
        self.caught: list[warnings.WarningMessage] = []
        self.syncs: list[str] = []

    def __iter__(self) -> Iterator[Batch]:
        with warnings.catch_warnings(record=True) as self.caught:
            warnings.simplefilter("always")
            yield from super().__iter__()

    def _mark(self, turn: int) -> None:
        if self.device.type != "cuda":
            return
        torch.cuda.set_sync_debug_mode("default")
        found = [w for w in self.caught if "synchronizing" in str(w.message)]
        self.syncs = [f"{Path(w.filename).name}:{w.lineno}" for w in found] if turn else []
        self.caught.clear()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("default" if turn else "warn")


class Clock:
    """Time of a turn, from and to a moment at which the device has nothing to do."""

    def __init__(self, device: torch.device) -> None:
        self.on_cuda, self.since = device.type == "cuda", 0.0

    def start(self) -> None:
        """Begin a turn."""
        if self.on_cuda:
            torch.cuda.synchronize()
        self.since = time.perf_counter()

    def stop(self) -> float:
        """Return the seconds since :meth:`start`."""
        if self.on_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - self.since


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


def by_hand(loader: Marked, *, compiled: bool = False) -> Iterator[nn.Module]:
    """Train by a loop with pinned memory, a side stream and a batch in advance, as good as people write it.

    Yields:
        the network after each step.
    """
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
        yield net


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


def graph_by_hand(loader: Marked) -> Iterator[nn.Module]:
    """Train by a captured step, as torch's notes on CUDA graphs show it; the network after each step."""
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
        yield net


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
    size, side, texts, length, steps = (2, 32, 2, 16, 3) if small else (128, 224, 32, 256, 20)

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
        steps=32 if small else 400,
        warm=32,
    )


def same_result(case: Case, device: torch.device) -> None:
    """Fail unless both sides do the same: their weights after a few steps, up to rounding of bfloat16."""
    few = replace(case, steps=1, warm=1)
    *_, theirs = by_hand(Marked(few, device))
    for mine, other in zip(by_lt(Marked(few, device)).parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.cpu(), other.cpu(), rtol=2e-2, atol=2e-2)


def syncs_of_ours(case: Case, device: torch.device, **arguments: Any) -> float:
    """Return the synchronising calls of a step that the loop by hand does not make; names them."""
    counted, expected = Counted(case, device), Counted(case, device)
    by_lt(counted, **arguments)
    for _ in by_hand(expected):
        pass
    ours = len(counted.syncs) - len(expected.syncs)
    if ours > 0:
        print(f"{case.name}: synchronising calls at {sorted(set(counted.syncs) - set(expected.syncs))}")
    return ours / case.steps


@dataclass(frozen=True, kw_only=True)
class Line:
    """One comparison: what it is called, who trains on each side, and the most that ours may take."""

    case: Case
    what: str
    hand: Callable[[Marked], Iterator[nn.Module]]
    ours: Callable[[Marked], nn.Module]
    budget: float = float("inf")
    compiles: bool = False


def lines_of(device: torch.device, *, small: bool) -> list[Line]:
    """Return what is compared; what takes long to compile comes last."""
    lines = []
    for case in cases(small=small):
        lines.append(Line(case=case, what="", hand=by_hand, ours=by_lt, budget=1.01))
        logged = partial(by_lt, logs=True, logger="csv")
        lines.append(Line(case=case, what=", CSV logger and self.log", hand=by_hand, ours=logged))
        both = partial(by_hand, compiled=True), partial(by_lt, compile=True)
        compiled = Line(case=case, what=", compiled", hand=both[0], ours=both[1], budget=1.01, compiles=True)
        lines.append(compiled)
    mlp = tiny(small=small)
    lines.append(Line(case=mlp, what="", hand=by_hand, ours=by_lt))
    if device.type == "cuda":
        for steps, what in ((1, ', step="graphs", by hand a graph'), (16, ", the same with 16 steps a graph")):
            lines.append(Line(case=mlp, what=what, hand=graph_by_hand, ours=partial(by_lt, step=GraphSteps(steps))))
    return sorted(lines, key=lambda line: line.compiles)


def gpu_rows(device: torch.device, rounds: int, *, small: bool) -> tuple[list[Figure], list[str]]:
    """Return row G, for which both sides take ``rounds`` turns each, and what failed."""
    failed: list[str] = []
    found: list[Figure] = []
    lines = lines_of(device, small=small)
    if small:
        lines = [replace(one, case=replace(one.case, warm=1)) for one in lines]

    def tried(what: str, act: Callable[[], object]) -> bool:
        print(f"{time.strftime('%X')} {what}", file=sys.stderr, flush=True)
        try:
            act()
        except Exception as error:  # the rest is measured all the same
            failed.append(f"{what}: {type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}")
            return False
        return True

    plain = [line for line in lines if not line.what]
    for line in plain:
        tried(f"{line.case.name}: the same weights", partial(same_result, line.case, device))
    for line in plain:
        name = f"{line.case.name}: synchronising calls of ours in a step"
        for what, budget, options in (("", 0.0, {}), (", CSV logger and self.log", float("inf"), LOGGED)):
            figure = Figure("G", f"{name}{what}", "number", budget, "plain")
            if tried(figure.what, partial(count, figure, line.case, device, **options)):
                found.append(figure)
    peaks: list[Figure] = []
    for line in lines:
        what = f"{line.case.name}{line.what}"
        figure = Figure("G", what, "µs", line.budget, "ratio")
        peak = Figure("G", f"{what}, memory", "MiB", float("inf"))
        if tried(what, partial(take_turns, figure, line, device, rounds)):
            print(table([figure]), flush=True)
            found.append(figure)
        if device.type == "cuda" and tried(peak.what, partial(note_peaks, peak, line, device)):
            peaks.append(peak)
    return found + peaks, failed


LOGGED: dict[str, Any] = {"logs": True, "logger": "csv"}


def take_turns(figure: Figure, line: Line, device: torch.device, rounds: int) -> None:
    """Let both sides train side by side: the loop by hand takes its turns at the marks of ours."""
    torch.compiler.reset()  # after 8 nets torch would compile a function no more
    case, clock = line.case, Clock(device)
    theirs = line.hand(Marked(case, device, turns=rounds))

    def at_mark(turn: int) -> None:
        ours = clock.stop()
        clock.start()
        train(case.steps if turn else case.warm)
        by_hand = clock.stop()
        if turn:
            figure.turn(by_hand / case.steps * 1e6, ours / case.steps * 1e6)
        clock.start()

    @torch.enable_grad()
    def train(steps: int) -> None:
        for _ in range(steps):
            next(theirs)

    line.ours(Marked(case, device, turns=rounds, at_mark=at_mark))


def note_peaks(figure: Figure, line: Line, device: torch.device) -> None:
    """Note the memory of each side at its fullest, alone on the device, from its first step on."""
    few, found = replace(line.case, steps=5, warm=5), []
    for train in (lambda: [None for _ in line.hand(Marked(few, device))], lambda: line.ours(Marked(few, device))):
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        train()
        found.append((torch.cuda.max_memory_allocated() - before) / 2**20)
    figure.turn(*found)


def count(figure: Figure, case: Case, device: torch.device, **options: Any) -> None:
    """Note how often a step of ours waits for the device where the loop by hand does not."""
    figure.turn(0.0, syncs_of_ours(case, device, **options))


def tests() -> str:
    """Run the tests that are marked cuda; return what pytest says of them at its end."""
    root = Path(__file__).parents[1]
    marked = [str(path) for path in sorted(root.glob("tests/**/test_*.py")) if "mark.cuda" in path.read_text("utf-8")]
    command = [sys.executable, "-m", "pytest", "-m", "cuda", "-q", "--tb=short", "--durations=5", *marked]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return (ran.stdout[-20000:] + ran.stderr[-2000:]).strip()


def report(figures: list[Figure], failed: list[str], tested: str, took: float) -> str:
    """Return all of it as one page in Markdown."""
    rows = "\n".join([*MARKDOWN_HEAD, *map(markdown_line, figures)])
    wrong = "\n".join(f"- {line}" for line in failed) or "Nothing."
    return (
        f"# lt on a GPU, {time.strftime('%Y-%m-%d')}\n\n{machine()} {took:.0f} s in all.\n\n## Figures\n\n{rows}\n\n"
        f"## What failed\n\n{wrong}\n\n## Tests\n\n```\n{tested}\n```\n"
    )


def unusable() -> str:
    """Return why torch can use no GPU here; empty where it can."""
    try:
        torch.cuda.init()
    except (AssertionError, RuntimeError) as error:
        return str(error).strip()
    return ""


def without_gpu(reason: str) -> str:
    """Return the page for a machine whose GPU torch does not see, with what the driver sees."""
    command = ["nvidia-smi", "-L"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        listed = (ran.stdout + ran.stderr).strip()
    except OSError as error:
        listed = str(error)
    return (
        f"# lt on a GPU, {time.strftime('%Y-%m-%d')}\n\n{machine()}\n\n"
        f"Nothing was measured, and no test was run: {reason}\n\n"
        f"torch was built for CUDA {torch.version.cuda}; `nvidia-smi -L` says:\n\n```\n{listed}\n```\n"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="small batches and few steps")
    parser.add_argument("--quick", action="store_true", help="five turns of each side")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each side")
    parser.add_argument("--write", type=existing, help="page to put the table into, such as docs/gpu.md")
    parser.add_argument("--report", type=Path, help="file for a page with the figures and the tests marked cuda")
    args = parser.parse_args()
    if args.device == "cuda" and (reason := unusable()):
        if args.report is not None:
            args.report.write_text(without_gpu(reason), "utf-8")
            reason += f"\n{args.report} says so: please send it back as it is, as an issue."
        parser.exit(1, f"Nothing was measured: {reason}\n--device cpu --small shows that the script works.\n")
    warnings.simplefilter("ignore")
    began, rounds = time.monotonic(), 5 if args.quick else args.rounds
    figures, failed = gpu_rows(torch.device(args.device), rounds, small=args.small)
    print(table(figures))
    print(machine())
    print(*(f"failed: {line}" for line in failed), sep="\n")
    if args.write is not None:
        write(figures, args.write, "G")
    if args.report is not None:
        args.report.write_text(report(figures, failed, "not run yet", time.monotonic() - began), "utf-8")
        tested = tests()
        args.report.write_text(report(figures, failed, tested, time.monotonic() - began), "utf-8")
        print(tested)
        print(f"Please send back {args.report} as an issue.")


if __name__ == "__main__":
    main()
