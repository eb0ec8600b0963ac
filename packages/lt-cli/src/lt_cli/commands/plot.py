"""``lt plot``: the metrics of one or several runs as a picture."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lt_cli.command import CommandError, CommandParser, near, visible
from lt_cli.runs.metrics import Points, RunMetrics, find_runs, named_apart, read_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_history", "main", "panels_of", "parser"]

_STAGE = re.compile(r"^(train|val|validation|test|predict)[_/-]|(_step|_epoch)?(/dataloader_idx_.*)?$")
_FORMATS = (".png", ".svg", ".pdf")
_LINES = ("-", "--", ":", "-.")
_MOST_PANELS, _MOST_CURVES = 60, 20  # of a picture, of a panel with its legend
_MOST_NAMES = 100  # in a message
_AXES = ("epoch",)  # for the x axis, not drawn by themselves


def main(words: Sequence[str]) -> int:
    """Draw the runs and print the file's path; return the exit status."""
    options = parser().parse_args(words)
    try:
        runs = named_apart([read_run(path) for path in find_runs(options.runs or [_newest_run()])])
        target = options.out or _default_target(runs)
        if target.suffix not in _FORMATS:
            raise CommandError(f"--out {target}: expected a name that ends in {', '.join(_FORMATS)}.", code="LT167")
        panels, more = _drawable(_chosen(panels_of(runs), options.metrics))
        _check_axis(runs, options.x)
        figure = draw(runs, panels, axis=options.x, smooth=options.smooth, logarithmic=options.log)
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target)
    except CommandError as error:
        print(f"lt plot: error: {error}", file=sys.stderr)
        return 2
    for what in (*(what for run in runs for what in run.left_out), *more):
        print(visible(f"lt plot: {what}"), file=sys.stderr)
    print(visible(f"{target}: {', '.join(panels)}"))
    return 0


def draw_history(
    curves: Mapping[str, Points], metrics: Sequence[str], *, axis: str, smooth: float, logarithmic: bool
) -> Figure:
    """Draw the curves of a fit that ended in this process: the Trainer's result asks for it by the role ``plot``.

    Raises:
        ConfigError: for a metric that is not there, and without matplotlib.
    """
    from lt_core.errors import ConfigError

    run = RunMetrics("fit", Path(), dict(curves))
    try:
        _check_axis([run], axis)
        return draw([run], _chosen(panels_of([run]), metrics), axis=axis, smooth=smooth, logarithmic=logarithmic)
    except CommandError as error:
        raise ConfigError(str(error).removesuffix(f" [{error.code}]"), code=error.code) from None


def panels_of(runs: Iterable[RunMetrics]) -> dict[str, list[str]]:
    """Return which metrics are drawn together: ``train_loss_step`` and ``val_loss`` go to the panel ``loss``."""
    panels: dict[str, list[str]] = {}
    for run in runs:
        for metric in run.curves:
            panel = panels.setdefault(_STAGE.sub("", metric), [])
            if metric not in panel:
                panel.append(metric)
    if len(panels) > 1:
        for axis in _AXES:
            panels.pop(axis, None)
    return panels


def draw(
    runs: Sequence[RunMetrics],
    panels: Mapping[str, Sequence[str]],
    *,
    axis: str = "step",
    smooth: float = 0.0,
    logarithmic: bool = False,
) -> Figure:
    """Return a picture with one panel for each group of metrics, and a colour for each run.

    Args:
        runs: to draw.
        panels: metrics of each panel, by the panel's title.
        axis: ``"step"``, or a metric to draw along.
        smooth: weight of the past in a running mean, from 0 (none) to below 1.
        logarithmic: draw values on a logarithmic scale.

    Raises:
        CommandError: when matplotlib is not installed.
    """
    figure = _new_figure(len(panels))
    columns = min(len(panels), 3)
    several = len(runs) > 1
    along = [run.along(axis) for run in runs]
    for number, (title, metrics) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(-(-len(panels) // columns), columns, number)
        for colour, (run, curves) in enumerate(zip(runs, along, strict=True)):
            for metric, line in zip(metrics, cycle(_LINES), strict=False):
                points = curves.get(metric, [])
                label = visible(f"{run.name} {metric}" if several else metric)
                shade = f"C{colour}" if several else f"C{metrics.index(metric)}"
                _draw_curve(axes, points, smooth, label, shade, line if several else "-")
        axes.set_title(visible(title))
        axes.set_xlabel(visible(axis))
        axes.grid(alpha=0.3)
        if logarithmic:
            axes.set_yscale("log")
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize="small")
    return figure


def _draw_curve(axes: Any, points: Points, smooth: float, label: str, colour: str, line: str) -> None:
    if not points:
        return
    steps, values = zip(*points, strict=True)
    marker = "o" if len(points) == 1 else ""
    if smooth:
        axes.plot(steps, values, line, color=colour, alpha=0.25)
        values = tuple(_smoothed(values, smooth))
    axes.plot(steps, values, line, color=colour, marker=marker, label=label)


def _smoothed(values: Sequence[float], weight: float) -> Iterable[float]:
    """Yield exponential moving averages, ``weight`` is the past's; bias corrected from the first point on.

    A point that is not finite is kept as it is and left out of the average.
    """
    mean, mass = 0.0, 0.0
    for value in values:
        if not math.isfinite(value):
            yield value
            continue
        mean, mass = weight * mean + (1 - weight) * value, weight * mass + (1 - weight)
        yield mean / mass


def _new_figure(panels: int) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        from lt_core.plugins import install_hint

        raise CommandError(
            f"drawing needs the package matplotlib: {install_hint('lt-cli[plot]')}", code="LT165"
        ) from None
    columns = min(panels, 3)
    figure = Figure(figsize=(5.5 * columns, 3.8 * -(-panels // columns)), layout="constrained", dpi=120)
    if "IPython" in sys.modules:  # a notebook shows it, whatever matplotlib's backend
        vars(figure)["_repr_png_"] = partial(import_module("IPython.core.pylabtools").print_figure, figure)
    return figure


def _chosen(panels: dict[str, list[str]], wanted: Sequence[str] | None) -> dict[str, list[str]]:
    """Return the panels that were asked for by title or by the name of a metric."""
    if not wanted:
        return panels
    chosen: dict[str, list[str]] = {}
    names = [*panels, *(metric for metrics in panels.values() for metric in metrics)]
    for name in wanted:
        if name in panels:
            chosen[name] = panels[name]
        elif name in names:
            chosen.setdefault(_STAGE.sub("", name), []).append(name)
        else:
            raise CommandError(f"no run logged {name!r}.{near(name, names)} There are: {_listed(names)}.", code="LT166")
    return chosen


def _drawable(panels: dict[str, list[str]]) -> tuple[dict[str, list[str]], list[str]]:
    """Return as many panels and curves as one picture can show, and notes on the others."""
    shown = {title: metrics[:_MOST_CURVES] for title, metrics in list(panels.items())[:_MOST_PANELS]}
    told = [
        f"the panel {title!r} shows {_MOST_CURVES} of {len(panels[title])} metrics; name others by --metrics"
        for title, metrics in shown.items()
        if len(metrics) < len(panels[title])
    ]
    if len(shown) < len(panels):
        told.append(f"the picture shows {len(shown)} of {len(panels)} panels; name others by --metrics")
    return shown, told


def _listed(names: Collection[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(list(names)[:_MOST_NAMES]) + more


def _check_axis(runs: Sequence[RunMetrics], axis: str) -> None:
    for run in runs:
        if axis != "step" and axis not in run.curves:
            raise CommandError(
                f"--x {axis}: {run.path} has no such metric. There are: step, {_listed(run.curves)}.", code="LT166"
            )


def _newest_run() -> Path:
    """Return the newest run that has curves: a test after a fit leaves a run of single values."""
    runs = find_runs([Path("lightning_logs")])
    return next((run for run in reversed(runs) if _has_curves(run)), runs[-1])


def _has_curves(run: Path) -> bool:
    try:
        return any(len(points) > 1 for points in read_run(run).curves.values())
    except CommandError:  # nothing was written yet
        return False


def _default_target(runs: Sequence[RunMetrics]) -> Path:
    if len(runs) > 1:
        return Path("metrics.png")
    path = runs[0].path
    return (path.parent if path.is_file() else path) / "metrics.png"


def _weight(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to below 1, received {text}")
    return value


def parser() -> CommandParser:
    """Return the parser of the command."""
    made = CommandParser(prog="lt plot", description="Draw the metrics of one or several runs.")
    made.add_argument(
        "runs", nargs="*", type=Path, metavar="RUN", help="folders or files; default: the newest run with curves"
    )
    made.add_argument("--metrics", nargs="+", metavar="NAME", help="only these: loss, val_accuracy...")
    made.add_argument("--x", default="step", metavar="NAME", help="draw along epoch, or another metric")
    made.add_argument("--smooth", type=_weight, default=0.0, help="weight of the past in a running mean: 0.9")
    made.add_argument("--log", action="store_true", help="values on a logarithmic scale")
    made.add_argument("--out", type=Path, help="the picture: .png, .svg or .pdf; default: metrics.png with the run")
    return made
