"""The table of finished epochs above the bar."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lt_callbacks.progress.phase import Phase, format_seconds, format_value

BEST = "*"
"""Marks the best value so far."""

_AGAIN = 30  # rows after which the heading is repeated
_NARROW, _CALM = 5, 8  # columns of a short number, and of any


class _Head(NamedTuple):
    name: str
    metric: bool = True


class _Column(NamedTuple):
    lines: list[str]
    width: int
    gap: int


class History:
    """A table that grows by a row for each epoch: names once in the heading, numbers below each other.

    Where the terminal is narrow, names go on in the next line of the heading; then the throughput is left out, then the
    metrics that come last, and the heading says how many.
    """

    def __init__(self) -> None:
        self._room = self._rows = 0
        self._widths: dict[_Head, int] = {}
        self._columns: dict[_Head, _Column] = {}

    def add(self, phase: Phase, metrics: Mapping[str, Any], room: int) -> str:
        """Return the row of an epoch, with a heading above it where the table begins or its columns change.

        Args:
            phase: the epoch.
            metrics: numbers or texts by name.
            room: columns of the terminal.
        """
        cut = phase.total is not None and phase.done < phase.total
        cells = {
            _Head("", metric=False): phase.description + (f" {phase.count}" if cut else ""),
            _Head("time", metric=False): format_seconds(phase.elapsed, short=True),
            _Head(f"{phase.unit}/s", metric=False): phase.mean_rate,
        }
        for name, value in metrics.items():
            text = format_value(value)
            text = text if text.endswith(BEST) else f"{text} "
            if 0 < self._holds(_Head(name)) < len(text) and isinstance(value, float):
                # a number that becomes small or large does not begin the table anew
                text = f"{value:{'.4g' if abs(value) >= 1 else '.0e'}} "
            cells[_Head(name)] = text
        wider = {head: len(text) for head, text in cells.items() if len(text) > self._holds(head)}
        lines: list[str] = []
        if wider or room != self._room or self._rows >= _AGAIN:
            first = not self._widths
            full = {
                head: _CALM + 1 for head in wider if cells[head].endswith(BEST)
            }  # room for each value that may come
            widths = self._widths | wider | full
            self._widths = {head: widths[head] for head in [*cells, *widths] if head in widths}
            self._room, self._rows = room, 0
            self._columns = _layout(self._widths, room)
            lines = [""] * first + self._heading()
        self._rows += 1
        return "\n".join([*lines, "".join(self._cell(head, cells.get(head, "")) for head in self._columns).rstrip()])

    def _holds(self, head: _Head) -> int:
        """Return how wide a cell may be without moving the others."""
        if head in self._columns:
            return self._columns[head].width - self._columns[head].gap
        return self._room if head in self._widths else 0  # left out, or new

    def _heading(self) -> list[str]:
        height = max(len(column.lines) for column in self._columns.values())
        padded = [([""] * height + column.lines)[-height:] for column in self._columns.values()]
        widths = [column.width for column in self._columns.values()]
        lines = ["".join(map(str.rjust, texts, widths)).rstrip() for texts in zip(*padded, strict=True)]
        hidden = sum(head.metric for head in self._widths) - sum(head.metric for head in self._columns)
        lines[-1] += f" +{hidden}" if hidden else ""
        return [_styled(line, "2") for line in lines]

    def _cell(self, head: _Head, text: str) -> str:
        width = self._columns[head].width
        if not head.name:
            return text.ljust(width)
        return _styled(text.rjust(width), "1;32" if text.endswith(BEST) else "" if head.metric else "2")


def _styled(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def _layout(widths: Mapping[_Head, int], room: int) -> dict[_Head, _Column]:
    """Return the columns that fit into ``room``, more compact the less there is of it."""
    columns: dict[_Head, _Column] = {}
    for gap, least, folds in ((2, _CALM, False), (2, _CALM, True), (1, _NARROW, True)):
        columns = {head: _column(head, width, gap, least, folds=folds) for head, width in widths.items()}
        if _width(columns.values()) <= room:
            return columns
    speed, metrics = list(columns)[2], list(columns)[3:]
    del columns[speed]
    for head in reversed(metrics):
        if _width(columns.values()) + (len(" +99") if metrics[-1] not in columns else 0) <= room:
            break
        del columns[head]
    return columns


def _width(columns: Iterable[_Column]) -> int:
    return sum(column.width for column in columns)


def _column(head: _Head, width: int, gap: int, least: int, *, folds: bool) -> _Column:
    if not head.metric:
        gap, least = (gap, min(least, _NARROW + 1)) if head.name else (0, 0)
        return _Column([head.name], max(len(head.name), width, least) + gap, gap)
    names = _fold(head.name, max(width - 1, least)) if folds else [head.name]
    lines = [f"{name} " for name in names]  # numbers have their mark there
    return _Column(lines, max(*map(len, lines), width, least + 1) + gap, gap)


def _fold(name: str, width: int) -> list[str]:
    """Return a name in lines, broken behind ``_``, ``/`` and ``.`` where it is too wide."""
    lines = [""]
    for part in re.findall(r"[^_/.]+[_/.]*|[_/.]+", name):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return lines
