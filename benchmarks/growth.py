"""How the cost grows: with logged keys, metrics, callbacks, parameters, loaders, workers, ranks. A plot and a table.

    uv run benchmarks/growth.py [keys metrics callbacks parameters loaders workers ranks] [--rounds 3] [--plot FILE.svg]

Each point is lt against the loop by hand on the same batches, taking turns: microseconds that a step of row A takes
longer (keys, metrics, callbacks, loaders), or how many times as long a step takes (parameters, ranks) or an epoch
(workers). By hand, metrics are updated too, and several loaders are read side by side by ``zip``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from figure import Figure, table
from ranks import turns
from steps import Batch, Net, Timed, bare_trainer, make_batches, percentile, quiet, train, train_by_hand
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt_data import CombinedLoader


class Keys(Net):
    """The MLP that logs so many values in each step, for the epoch's mean and every 50th step."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.names = [f"value_{number}" for number in range(count)]

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        for name in self.names:
            self.log(name, loss, on_step=True, on_epoch=True)
        return loss


class Count(nn.Module):
    """A metric as lt knows them: samples seen so far, with nothing of a metrics package around it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def update(self, logits: Tensor) -> None:
        """Count a batch."""
        self.seen += len(logits)

    def compute(self) -> Tensor:
        """Return the count."""
        return torch.tensor(float(self.seen))

    def reset(self) -> None:
        """Start anew."""
        self.seen = 0


class Metrics(Net):
    """The MLP that updates so many metric objects in each step, and may log them."""

    def __init__(self, count: int, *, logged: bool = True) -> None:
        super().__init__()
        self.logged = logged
        self.metrics = nn.ModuleList(Count() for _ in range(count))
        self.names = [f"metric_{number}" for number in range(count)]

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        for name, metric in zip(self.names, self.metrics, strict=True):
            metric.update(batch[0])
            if self.logged:
                self.log(name, metric, on_step=False, on_epoch=True)
        return loss


class Several(Net):
    """The MLP on several batches side by side, of which it trains on the first."""

    def training_step(self, batch: list[Batch], batch_idx: int) -> Tensor:
        return super().training_step(batch[0], batch_idx)


class Idle(pl.Callback):
    """A callback with a hook at each batch's end that does nothing."""

    def on_train_batch_end(self, *args: Any) -> None:
        """Do nothing."""


class Wide(Net):
    """One layer of about so many parameters."""

    def __init__(self, parameters: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, max(parameters // 64, 1), bias=False))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        return self.layers(batch[0]).square().mean()


def added(what: str, batches: list[Batch], rounds: int, **ours: Any) -> Figure:
    """Return by how many microseconds lt's step is longer than the bare one by hand."""
    figure = Figure("", what, "µs", float("inf"))
    for _ in range(rounds):
        hand, theirs = train_by_hand(batches, set_none=False)[0], train(batches, **ours)[0]
        figure.turn(percentile(hand), percentile(theirs))
    return figure


def keys(rounds: int) -> Iterator[Figure]:
    """Logged keys, with the CSV logger."""
    for count in (0, 1, 10, 30, 100):
        yield added(f"{count}", make_batches(1000), rounds, net=lambda count=count: Keys(count), logger="csv")


def metrics(rounds: int) -> Iterator[Figure]:
    """Metric objects that are updated and logged."""
    for count in (0, 1, 5, 10, 20):
        figure, batches = Figure("", f"{count}", "µs", float("inf")), make_batches(1000)
        for _ in range(rounds):
            hand = by_hand(Metrics(count, logged=False), Timed(batches))
            figure.turn(percentile(hand), percentile(train(batches, lambda count=count: Metrics(count))[0]))
        yield figure


def loaders(rounds: int) -> Iterator[Figure]:
    """Loaders that are read side by side."""
    for count in (1, 2, 4, 8):
        figure, batches = Figure("", f"{count}", "µs", float("inf")), make_batches(1000)
        for _ in range(rounds):
            hand = by_hand(Several(), Timed(list(zip(*[batches] * count, strict=True))))
            steps = Timed(batches)
            combined = CombinedLoader([steps, *[batches] * (count - 1)], "min_size")
            bare_trainer().fit(Several(), combined)
            figure.turn(percentile(hand), percentile(steps.times))
        yield figure


def by_hand(net: Net, loader: Timed) -> list[float]:
    """Train ``net`` by hand; return the times between batches."""
    optimizer = net.configure_optimizers()
    for number, batch in enumerate(loader):
        loss = net.training_step(batch, number)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return loader.times


def callbacks(rounds: int) -> Iterator[Figure]:
    """Callbacks with a hook at each batch."""
    for count in (0, 1, 5, 10, 20):
        yield added(f"{count}", make_batches(1000), rounds, net=Net, callbacks=[Idle() for _ in range(count)])


def parameters(rounds: int) -> Iterator[Figure]:
    """Parameters of the model, SGD."""
    for exponent in (3, 4, 5, 6, 7, 8):
        count = 10**exponent
        batches = make_batches(max(min(1000, 3 * 10**8 // count), 4))
        figure = Figure("", f"{count:.0e}", "µs", float("inf"), "ratio")
        for _ in range(rounds):
            hand = by_hand(Wide(count), Timed(batches))
            figure.turn(percentile(hand), percentile(train(batches, lambda count=count: Wide(count))[0]))
        yield figure


def workers(rounds: int) -> Iterator[Figure]:
    """Workers of a DataLoader that makes samples one by one."""
    data = TensorDataset(torch.randn(20_000, 64), torch.randint(0, 10, (20_000,)))

    def as_it_is(rows: list[Any]) -> list[Tensor]:  # a collate function of the user's: no batch indexing
        return [torch.stack(column) for column in zip(*rows, strict=True)]

    for count in (0, 1, 2):
        figure = Figure("", f"{count}", "s", float("inf"), "ratio")
        for _ in range(rounds):
            loader = DataLoader(data, 64, shuffle=True, num_workers=count, collate_fn=as_it_is)
            hand = _seconds(lambda loader=loader: train_by_hand(loader, set_none=False))
            figure.turn(hand, _seconds(lambda loader=loader: train(loader, Net)))
        yield figure


def ranks(rounds: int) -> Iterator[Figure]:
    """Processes of DDP on gloo, on this one machine; more than its cores take turns."""
    for count in (1, 2, 3, 4):
        figure = Figure("", f"{count}", "µs", float("inf"), "ratio")
        for hand, ours, *_ in turns(rounds, count):
            figure.turn(hand, ours)
        yield figure


def _seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


AXES: dict[str, tuple[Callable[[int], Iterator[Figure]], str]] = {
    "keys": (keys, "logged keys"),
    "metrics": (metrics, "logged metric objects"),
    "callbacks": (callbacks, "callbacks with a hook at each batch"),
    "parameters": (parameters, "parameters"),
    "loaders": (loaders, "loaders side by side"),
    "workers": (workers, "loader workers"),
    "ranks": (ranks, "ranks (DDP, gloo, 2 cores)"),
}


def plot(found: dict[str, list[Figure]], file: Path) -> None:
    """Draw a panel for each axis."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lt"  # the same picture for the same figures
    from matplotlib import pyplot as plt

    rows = -(-len(found) // 3)
    drawing, panels = plt.subplots(rows, min(len(found), 3), figsize=(9, 2.8 * rows), squeeze=False)
    for panel in panels.flat[len(found) :]:
        panel.axis("off")
    for panel, (name, figures) in zip(panels.flat, found.items(), strict=False):
        ratio, points = figures[0].kind == "ratio", [float(figure.what) for figure in figures]
        panel.plot(points, [figure.value for figure in figures], "o-", color="#4c72b0")
        panel.axhline(1 if ratio else 0, color="gray", linewidth=0.8)
        panel.set_xlabel(AXES[name][1])
        panel.set_title("step, lt / by hand" if ratio else "step, lt - by hand, in µs", fontsize=10)
        panel.set_ylim(*((0, 2) if ratio else (-30, max(20, panel.get_ylim()[1]))))
        if name == "parameters":
            panel.set_xscale("log")
        else:
            panel.set_xticks(points)
        panel.grid(alpha=0.3)
    drawing.tight_layout()
    drawing.savefig(file, metadata={"Date": None})


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("axes", nargs="*", help=" ".join(AXES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plot", type=Path, help="file for a plot, SVG")
    args = parser.parse_args()
    if unknown := set(args.axes) - set(AXES):
        parser.error(f"no such axis: {', '.join(sorted(unknown))}; there are {', '.join(AXES)}")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found: dict[str, list[Figure]] = {}
    for name in args.axes or AXES:
        with quiet():
            found[name] = list(AXES[name][0](args.rounds))
        print(f"{AXES[name][1]}\n{table(found[name])}\n", flush=True)
    if args.plot is not None:
        plot(found, args.plot)


if __name__ == "__main__":
    main()
