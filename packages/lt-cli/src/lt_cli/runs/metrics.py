"""The metrics that a run left: out of ``metrics.csv``, ``metrics.jsonl`` or TensorBoard's event files."""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from lt_cli.command import CommandError
from lt_core.plugins import install_hint

if TYPE_CHECKING:
    from lt_core.trainer import TrainerAPI

__all__ = ["RunMetrics", "find_runs", "named_apart", "plot_hint", "read_run"]

_EVENTS = "events.out.tfevents.*"
_LINES = (".csv", ".jsonl")
_FILES = ("metrics.csv", "metrics.jsonl", _EVENTS)

Points = list[tuple[float, float]]

_MOST_BYTES = 1 << 28  # of a file; a minute's reading
_BLOCKS = 256  # of a larger file of lines, evenly over it
_LONGEST_LINE = 1 << 24
_MOST_POINTS = 2_000_000  # of a file; a few hundred MB
_MOST_METRICS = 100_000


@dataclass
class RunMetrics:
    """The curves of one run.

    Attributes:
        name: of the run.
        path: its folder, or the file that was named.
        curves: for each metric the points (step, value), in order of steps.
        left_out: notes on parts that were too much to read.
    """

    name: str
    path: Path
    curves: dict[str, Points] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def along(self, axis: str) -> dict[str, Points]:
        """Return the curves over another metric, such as ``epoch``, in place of the step.

        That metric grows evenly from each step at which it has a new value to the next such step, so that the steps of
        an epoch lie between it and the next one.
        """
        if axis == "step":
            return self.curves
        marks = _marks(self.curves.get(axis, []))
        if not marks:
            return {}
        return {
            name: [(_place(step, marks), value) for step, value in points]
            for name, points in self.curves.items()
            if name != axis
        }


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Return the runs that are meant by paths: files, folders of a run, or folders of several runs.

    Raises:
        CommandError: for a path in which no metrics are.
    """
    found: list[Path] = []
    for path in paths:
        below = [path] if (path.is_file() and path.suffix != ".wandb") or _has_metrics(path) else _runs_below(path)
        if not below:
            missing = "is not there" if not path.exists() else f"holds none of {', '.join(_FILES)}"
            remedy = "Name the folder of a run: lightning_logs/version_0."
            if path.suffix == ".wandb" or any(path.rglob("*.wandb")):
                remedy = (
                    "W&B's file is for W&B: `wandb sync`. Trainer(logger=['wandb', 'csv']) leaves what lt plot reads."
                )
            raise CommandError(f"{path} {missing}. {remedy}", code="LT166")
        found += below
    return found


def read_run(path: Path) -> RunMetrics:
    """Return the metrics of a run; of very large files a part, in bounded memory and time.

    Args:
        path: its folder, or one of its files.

    Raises:
        CommandError: for a file that holds no metrics, or is damaged.
    """
    files = [path] if path.is_file() else [file for pattern in _FILES for file in sorted(path.glob(pattern))]
    values: dict[str, dict[float, float]] = {}
    left_out: list[str] = []
    for file in files:
        read = _Values()
        try:
            for step, row in _rows(file):
                read.add(step, row)
        except (ValueError, csv.Error, RecursionError) as error:
            raise CommandError(f"{file} is damaged and cannot be read: {error}.", code="LT166") from error
        for name, points in read.by_name.items():
            values.setdefault(name, {}).update(points)
        left_out += [f"{file}: {what}" for what in (*_unread(file), *read.left_out())]
    if not values:
        raise CommandError(f"{path} holds no metrics yet.", code="LT166")
    curves = {name: sorted(points.items()) for name, points in values.items()}
    return RunMetrics(_name_of(path), path, curves, left_out)


class _Values:
    """The values of one file by name and step; a bounded number of them."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[float, float]] = {}
        self._count, self._every = 0, 1
        self._too_many = False

    def add(self, step: float, row: Mapping[str, float] | None) -> None:
        """Add a row; None removes the values from ``step`` on."""
        if row is None:
            for name, points in self.by_name.items():
                self.by_name[name] = {at: value for at, value in points.items() if at < step}
            return
        for name, value in row.items():
            if name not in self.by_name and len(self.by_name) >= _MOST_METRICS:
                self._too_many = True
                continue
            points = self.by_name.setdefault(name, {})
            self._count += step not in points
            points[step] = value
        if self._count > _MOST_POINTS:
            self._halve()

    def _halve(self) -> None:
        for name, points in self.by_name.items():
            self.by_name[name] = dict(list(points.items())[::2])
        self._count, self._every = sum(map(len, self.by_name.values())), self._every * 2

    def left_out(self) -> Iterator[str]:
        if self._every > 1:
            yield f"more than {_MOST_POINTS:,} values; of early ones every {self._every}th is read"
        if self._too_many:
            yield f"more than {_MOST_METRICS:,} metrics; only so many are read"


def _unread(file: Path) -> Iterator[str]:
    size = file.stat().st_size
    if size > _MOST_BYTES:
        part = f"{_BLOCKS} parts of it, evenly spread," if file.suffix in _LINES else "the first part of it, of"
        yield f"{size / 1e9:.1f} GB are too much; {part} {_MOST_BYTES / 1e9:.1f} GB together, are read"


def named_apart(runs: list[RunMetrics]) -> list[RunMetrics]:
    """Rename runs of the same name by as much of their paths as tells them apart; return them."""
    for depth in range(2, 20):
        names = [run.name for run in runs]
        for run, name in zip(runs, names, strict=True):
            run.name = _name_of(run.path, depth) if names.count(name) > 1 else name
    return runs


def plot_hint(trainer: TrainerAPI) -> str | None:
    """Return the command that draws the run of ``trainer``; None where it has no files or no matplotlib."""
    from lt_core.terminal import short_path  # not above: with lt_core comes torch, which `lt plot` does without

    for logger in trainer.loggers:
        if logger.log_dir and _has_metrics(Path(logger.log_dir)) and find_spec("matplotlib"):
            return f"Metrics: {_lt()} plot {shlex.quote(short_path(logger.log_dir))}"
    return None


def _has_metrics(folder: Path) -> bool:
    """Return whether a folder holds a file of metrics that can be read."""
    return any(file for pattern in _FILES for file in folder.glob(pattern))


def _runs_below(folder: Path) -> list[Path]:
    inner = {file.parent for pattern in _FILES for file in folder.rglob(pattern)}
    return sorted(inner, key=lambda path: path.stat().st_mtime)


def _name_of(path: Path, depth: int = 1) -> str:
    folder = (path.parent if path.is_file() else path).absolute()
    return "/".join(folder.parts[-depth:])


def _rows(file: Path) -> Iterator[tuple[float, dict[str, float] | None]]:
    """Yield step and values of each row that a file holds; None for a step at which the run began anew."""
    if file.suffix == ".csv":
        yield from (_row(number, row) for number, row in enumerate(csv.DictReader(_lines(file))))
    elif file.suffix == ".jsonl":
        for number, line in enumerate(_lines(file)):
            if line.rstrip("\r\n").endswith("}"):  # a run that goes on may have half a line
                yield _row(number, json.loads(line))
    else:
        try:  # not at the top: a run that only says how to draw it needs no TensorBoard
            from lt_cli.runs.event_file import Restart, read_events
        except ImportError as error:
            needed = f"To read it needs TensorBoard ({error}): {install_hint('lt-cli[plot]')}"
            raise CommandError(f"{file} is an event file. {needed}", code="LT166") from error
        for found in read_events(file, _MOST_BYTES):
            yield float(found.step), None if isinstance(found, Restart) else {found.tag: found.value}


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, or of evenly spread parts of a large one."""
    size = path.stat().st_size
    blocks = 1 if size <= _MOST_BYTES else _BLOCKS
    with path.open("rb") as file:
        for block in range(blocks):
            begin = size * block // blocks
            end = begin + min(size, _MOST_BYTES) // blocks
            if begin > file.tell():
                file.seek(begin)
                file.readline(_LONGEST_LINE)  # the rest of one
            while file.tell() < end and (line := file.readline(_LONGEST_LINE)):
                if len(line) == _LONGEST_LINE:
                    raise ValueError(f"a line of more than {_LONGEST_LINE >> 20} MB")
                yield line.decode()


def _row(number: int, row: Mapping[str, object]) -> tuple[float, dict[str, float]]:
    found = {name: value for name, text in row.items() if (value := _number(text)) is not None}
    return found.pop("step", float(number)), found


def _number(text: object) -> float | None:
    try:
        return None if isinstance(text, bool) else float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _marks(scale: Points) -> Points:
    """Return the points of a metric at which its value changes."""
    return [point for number, point in enumerate(scale) if not number or point[1] != scale[number - 1][1]]


def _place(step: float, marks: Points) -> float:
    """Return the value at ``step`` of a line through ``marks``, that goes on evenly at both ends."""
    if len(marks) == 1:
        return marks[0][1]
    after = min(max(bisect_right(marks, step, key=lambda mark: mark[0]), 1), len(marks) - 1)
    (left, low), (right, high) = marks[after - 1], marks[after]
    return low + (high - low) * (step - left) / (right - left)


def _lt() -> str:
    """Return the command for ``lt``: a script that ``uv run`` started has it on its path, the shell has not."""
    if "UV_RUN_RECURSION_DEPTH" in os.environ:
        return "uv run lt"
    by_python = f"{shlex.quote(sys.executable)} -m {'lt' if find_spec('lt') else 'lt_cli.main'}"
    return "lt" if shutil.which("lt") else by_python
