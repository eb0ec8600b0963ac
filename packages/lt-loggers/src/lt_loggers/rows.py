"""Logged rows that are not written yet."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from time import time
from typing import Any

import torch
from torch import Tensor

from lt_core.errors import LogError

Number = int | float
Row = tuple[int | float, float, dict[str, Number]]
"""Step, wall time in seconds since 1970, values by name."""


class Rows:
    """A buffer of rows that knows when it is time to write them.

    Adding a row costs about a microsecond: values on the CPU are read right away (0.1 µs each), values on a device are
    copied there, which waits for nothing, and fetched all together by :meth:`read`.

    Args:
        prefix: put before each name.
        every: steps (or rows) after which it is time to write.
        seconds: time after which it is time to write, looked at when a row is added.
        rename: called once for each new name; returns the name to use, or raises.
    """

    def __init__(self, prefix: str, every: int, seconds: float, rename: Callable[[str], str] = str) -> None:
        self.last_step: float = -1
        self._prefix = prefix
        self._every, self._seconds, self._lt_rename = every, seconds, rename
        self._names: dict[str, str] = {}
        self._lt_rows: list[Row] = []
        self._on_device: list[tuple[dict[str, Number], str, Tensor]] = []
        self._due_step = self._due_time = self.pause = 0.0

    def __len__(self) -> int:
        return len(self._lt_rows)

    def add(self, metrics: Mapping[str, Any], step: float | None) -> bool:
        """Keep one row; return whether it is time to write.

        Args:
            metrics: names and numbers: float, int, bool, 0-dim tensor, numpy scalar, or a dict of those.
            step: place on the x axis; None is one more than before.

        Raises:
            LogError: for a value that is no single number, or a name that is no string.
        """
        row: dict[str, Number] = {}
        names = self._names
        for name, value in metrics.items():
            full = names.get(name) or self._full_name(name)
            kind = type(value)
            if kind is float:
                row[full] = value
            elif kind is Tensor and value.is_cpu and value.numel() == 1 and value.is_floating_point():
                row[full] = value.item()
            else:
                self._put(row, full, value)
        if step is None:
            step = self.last_step + 1
        elif type(step) is not int:
            step = _as_step(step)
        now = time()
        if not self._lt_rows and not self.pause:
            self._due_step, self._due_time = step + self._every, now + self._seconds
        self._lt_rows.append((step, now, row))
        self.last_step = step
        if self.pause:
            return now >= self._due_time
        return step >= self._due_step or now >= self._due_time or len(self._lt_rows) >= self._every

    def read(self) -> list[Row]:
        """Return all rows, with the values that are on devices fetched in one transfer for each device and type."""
        groups: dict[tuple[torch.device, torch.dtype], list[tuple[dict[str, Number], str, Tensor]]] = {}
        for place in self._on_device:
            groups.setdefault((place[2].device, place[2].dtype), []).append(place)
        for places in groups.values():
            numbers = torch.stack([tensor for _, _, tensor in places]).tolist()
            for (row, name, _), number in zip(places, numbers, strict=True):
                row[name] = number
        self._on_device.clear()
        return self._lt_rows

    def take(self) -> list[Row]:
        """Return all rows and forget them, without a word about a write."""
        rows, self._lt_rows = self.read(), []
        return rows

    def drop(self) -> None:
        """Forget all rows: they are written."""
        self._lt_rows = []
        self._on_device.clear()
        self.pause = 0.0

    def take_back(self) -> None:
        """Forget the row that was added last, unless it is written already."""
        del self._lt_rows[-1:]

    def postpone(self) -> None:
        """Keep the rows: they could not be written now. Wait longer after each failure, up to an hour."""
        self.pause = min(max(self._seconds, 2 * self.pause, 1.0), 3600.0)
        self._due_time = time() + self.pause

    @property
    def is_waiting(self) -> bool:
        """Whether the last write failed, and it is too early for another try."""
        return self.pause > 0 and time() < self._due_time

    def _full_name(self, name: object) -> str:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise LogError(
                f"log_metrics: a name is a string of printable characters, got {name!r} ({type(name).__name__}).",
                code="LT544",
            )
        full = self._names[name] = self._lt_rename(self._prefix + name)
        return full

    def _put(self, row: dict[str, Number], name: str, value: Any) -> None:
        """Keep a value that is no float."""
        if isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex():
            if value.is_cpu:
                row[name] = _as_number(value.item())
            else:
                row[name] = 0.0  # its place among the others; read() fills it in
                self._on_device.append((row, name, value.detach().reshape(()).clone()))
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                self._put(row, f"{name}/{key}", inner)
        else:
            number = _as_number(value.item() if getattr(value, "size", None) == 1 else value)
            if number is None:
                raise LogError(
                    f"log_metrics: {name!r} must be one number, got {value!r:.60} ({type(value).__name__}). "
                    "Reduce it first (value.mean()), or use trainer.log_media for anything else.",
                    code="LT545",
                )
            row[name] = number


def _as_number(value: Any) -> Any:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (str, bytes, complex)) or not hasattr(value, "__float__"):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def _as_step(step: Any) -> int | float:
    number = float(step)
    if not math.isfinite(number):
        raise LogError(f"log_metrics: a step is a finite number, got {number}.", code="LT544")
    return int(number) if number.is_integer() else number
