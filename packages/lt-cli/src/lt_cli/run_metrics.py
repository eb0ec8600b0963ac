"""The metrics that a run left: out of ``metrics.csv``, ``metrics.jsonl`` or TensorBoard's event files."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lt_cli.command_error import CommandError
from lt_cli.event_file import read_scalars

__all__ = ["RunMetrics", "find_runs", "has_metrics", "read_run"]

_EVENTS = "events.out.tfevents.*"
_FILES = ("metrics.csv", "metrics.jsonl", _EVENTS)

Points = list[tuple[float, float]]


@dataclass
class RunMetrics:
    """The curves of one run.

    Attributes:
        name: what to call it.
        path: its folder, or the file that was named.
        curves: for each metric the points (step, value), in order of steps.
    """

    name: str
    path: Path
    curves: dict[str, Points] = field(default_factory=dict)

    def along(self, axis: str) -> dict[str, Points]:
        """Return the curves over another metric, such as ``epoch``, in place of the step.

        Points at steps where that metric has no value get its last one before.
        """
        if axis == "step":
            return self.curves
        scale = self.curves.get(axis, [])
        return {name: _moved(points, scale) for name, points in self.curves.items() if name != axis}


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Return the runs that are meant by paths: files, folders of a run, or folders of several runs.

    Raises:
        CommandError: for a path in which no metrics are.
    """
    found: list[Path] = []
    for path in paths:
        below = [path] if path.is_file() or has_metrics(path) else _runs_below(path)
        if not below:
            missing = "is not there" if not path.exists() else f"holds none of {', '.join(_FILES)}"
            raise CommandError(f"{path} {missing}. Name the folder of a run: lightning_logs/version_0.", code="LT166")
        found += below
    return found


def read_run(path: Path) -> RunMetrics:
    """Return the metrics of a run.

    Args:
        path: its folder, or one of its files.

    Raises:
        CommandError: for a file that holds no metrics.
    """
    files = [path] if path.is_file() else [file for pattern in _FILES for file in sorted(path.glob(pattern))]
    values: dict[str, dict[float, float]] = {}
    for file in files:
        for step, row in _rows(file):
            for name, value in row.items():
                values.setdefault(name, {})[step] = value
    if not values:
        raise CommandError(f"{path} holds no metrics yet.", code="LT166")
    curves = {name: sorted(points.items()) for name, points in values.items()}
    return RunMetrics(_name_of(path), path, curves)


def has_metrics(folder: Path) -> bool:
    """Return whether a folder holds a file of metrics that can be read."""
    return any(file for pattern in _FILES for file in folder.glob(pattern))


def _runs_below(folder: Path) -> list[Path]:
    inner = {file.parent for pattern in _FILES for file in folder.rglob(pattern)}
    return sorted(inner, key=lambda path: path.stat().st_mtime)


def _name_of(path: Path) -> str:
    folder = path.parent if path.is_file() else path
    return folder.name or str(folder)


def _rows(file: Path) -> Iterator[tuple[float, dict[str, float]]]:
    """Yield step and values of each row that a file holds."""
    if file.suffix == ".csv":
        with file.open(encoding="utf-8", newline="") as lines:
            yield from (_row(number, row) for number, row in enumerate(csv.DictReader(lines)))
    elif file.suffix == ".jsonl":
        for number, line in enumerate(file.read_text("utf-8").splitlines()):
            if line.endswith("}"):  # a run that goes on may have half a line
                yield _row(number, json.loads(line))
    else:
        for scalar in read_scalars(file):
            yield float(scalar.step), {scalar.tag: scalar.value}


def _row(number: int, row: Mapping[str, object]) -> tuple[float, dict[str, float]]:
    found = {name: value for name, text in row.items() if (value := _number(text)) is not None}
    step = found.pop("step", float(number))
    return step, found


def _number(text: object) -> float | None:
    if text is None or text == "" or isinstance(text, bool):
        return None
    try:
        return float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _moved(points: Points, scale: Points) -> Points:
    moved: Points = []
    place, at = 0, math.nan
    for step, value in points:
        while place < len(scale) and scale[place][0] <= step:
            at = scale[place][1]
            place += 1
        if not math.isnan(at):
            moved.append((at, value))
    return moved
