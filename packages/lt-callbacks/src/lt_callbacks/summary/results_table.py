"""The table of results that ``validate`` and ``test`` print, drawn by rich."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lt_core.terminal import LossyStream

_NAMES = 10
"""Columns that names of metrics have at least; longer ones go on in the next line."""


def results_table(results: Sequence[Mapping[str, float]], stage: str) -> str:
    """Return a table with a line for each metric and a column for each loader.

    Where these do not fit side by side, the loaders' values stand below each other.

    Args:
        results: metrics by name, for each loader.
        stage: ``"validate"`` or ``"test"``, for the heading.
    """
    from rich.console import Console
    from rich.table import Table

    stdout: Any = LossyStream(sys.stdout)
    console = Console(file=stdout, markup=False, emoji=False, highlight=False)
    # without the suffix that names the loader: the columns do so here
    found = [
        {name.removesuffix(f"/dataloader_idx_{i}"): _number(value) for name, value in row.items()}
        for i, row in enumerate(results)
    ]
    names = dict.fromkeys(name for row in found for name in row)
    title = f"{stage.capitalize()} metric"
    columns = {f"DataLoader {i}": [row.get(name, "") for name in names] for i, row in enumerate(found)}
    columns = {title: [*names], **columns}
    if len(found) > 1 and _least(columns) > console.width:
        loaders = {name: [i for i, row in enumerate(found) if name in row] for name in names}
        columns = {
            title: [*names],
            "DataLoader": ["\n".join(map(str, of)) for of in loaders.values()],
            "Value": ["\n".join(found[i][name] for i in of) for name, of in loaders.items()],
        }
    console.width = max(console.width, _least(columns))
    table = Table(header_style="bold")
    for place, title in enumerate(columns):
        table.add_column(title, justify="right" if place else "left", no_wrap=place > 0, overflow="fold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    with console.capture() as drawn:
        console.print(table)
    return drawn.get().rstrip("\n")


def _least(columns: Mapping[str, Sequence[str]]) -> int:
    """Return how wide a table is in which the names alone are folded."""
    _, *numbers = (max(map(len, "\n".join([title, *cells]).split("\n"))) for title, cells in columns.items())
    return _NAMES + 4 + sum(width + 3 for width in numbers)


def _number(value: float) -> str:
    """Return a number with six digits that count."""
    return f"{value:d}" if isinstance(value, int) and abs(value) < 1e6 else f"{float(value):.6g}"
