"""The metrics of a fit as columns: kept in memory as they go to the loggers."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

from torch import Tensor

from lt_core.errors import ConfigError, did_you_mean

_UNREAD_ROWS = 64
"""Rows that are kept as they came, so that a value on a device is read long after it was computed."""

_MOST_VALUES = 10_001
"""Values of a metric that are kept at most, 160 KB; an odd number, so that the newest is kept when half of them go."""


class _NotLoggedError(ConfigError, KeyError):
    """A metric that a history has not; a KeyError for ``in`` and ``get``."""

    __str__ = Exception.__str__


class History(Mapping[str, list[float]]):
    """The rows that a fit sent to its loggers, as columns: ``history["val_loss"]`` is a list with a value for each row.

    Values of epochs are there without a logger too; values of steps are where a logger takes them, every
    ``log_every_n_steps``. A resumed fit has the rows since the resume. Where a metric has more than 10,000 values,
    every second one is left out, as often as it takes.
    """

    def __init__(self) -> None:
        self._columns: dict[str, tuple[array[float], array[float]]] = {}
        self._unread: list[tuple[Mapping[str, Any], int]] = []

    def __getitem__(self, metric: str) -> list[float]:
        """Return the values of a metric, in the order in which they were logged.

        Raises:
            KeyError: for one that has no values.
        """
        return self._column(metric)[1].tolist()

    def __iter__(self) -> Iterator[str]:
        """Return the names of the metrics, in the order in which they first came."""
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return f"History({', '.join(f'{name}: {len(self[name])}' for name in self)})"

    def steps(self, metric: str) -> list[int]:
        """Return where the values of a metric stand on the loggers' x axis: optimizer steps, by default."""
        return [int(step) for step in self._column(metric)[0]]

    def rows(self) -> list[dict[str, float]]:
        """Return a dict for each step at which something was logged, with its ``step``: for ``pandas.DataFrame``."""
        rows: dict[int, dict[str, float]] = {}
        for name in self:
            for step, value in zip(self.steps(name), self[name], strict=True):
                rows.setdefault(step, {"step": step})[name] = value
        return [rows[step] for step in sorted(rows)]

    def add(self, row: Mapping[str, Any], step: int) -> None:
        """Add the numbers of a row."""
        self._unread.append(({name: _copied(value) for name, value in row.items()}, step))
        if len(self._unread) >= _UNREAD_ROWS:
            self._read()

    def _read(self) -> dict[str, tuple[array[float], array[float]]]:
        unread, self._unread = self._unread, []
        for row, step in unread:
            for name, value in row.items():
                if isinstance(value, Real) or (isinstance(value, Tensor) and value.numel() == 1):
                    steps, values = self._columns.setdefault(name, (array("d"), array("d")))
                    steps.append(step)
                    values.append(float(value))
                    if len(values) == _MOST_VALUES:
                        steps[:], values[:] = steps[::2], values[::2]
        return self._columns

    def _column(self, metric: str) -> tuple[array[float], array[float]]:
        columns = self._read()
        if metric not in columns:
            raise _NotLoggedError(
                f"history[{metric!r}]: the fit logged no such values.{did_you_mean(metric, columns)} There are: "
                f"{', '.join(columns) or 'none'}. Values of steps are kept where the Trainer has a logger; "
                "self.log(..., on_epoch=True) gives one for each epoch.",
                code="LT227",
            )
        return columns[metric]

    def __getstate__(self) -> dict[str, Any]:
        return {"_columns": self._read(), "_unread": []}


def _copied(value: Any) -> Any:
    """Return a number as it is now; one on a device without waiting for it."""
    if not isinstance(value, Tensor) or value.numel() != 1:
        return value
    return value.item() if value.device.type == "cpu" else value.detach().clone()
