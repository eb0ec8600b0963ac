"""The weights summary, drawn by rich."""

from __future__ import annotations

import sys
from typing import Any

from lt_callbacks.summary.model_summary import ModelSummary
from lt_callbacks.summary.module_table import ModuleTable
from lt_core.terminal import LossyStream

__all__ = ["RichModelSummary"]


class RichModelSummary(ModelSummary):
    """The weights summary as a table by rich.

    Args:
        max_depth: how many levels of layers get a line: 1 the children, 0 none, -1 all.
        summarize_kwargs: ``header_style`` of the table, a rich style.
    """

    @staticmethod
    def summarize(table: ModuleTable, header_style: str = "bold magenta", **summarize_kwargs: Any) -> None:
        """Print ``table`` with ``header_style``, a rich style."""
        from rich.console import Console
        from rich.table import Table

        stdout: Any = LossyStream(sys.stdout)
        console, columns = Console(file=stdout), table.shown_columns()
        if table.rows:
            drawn = Table(header_style=header_style)
            for title, _ in columns:
                drawn.add_column(title, justify="right" if title in ("Params", "FLOPs") else "left", no_wrap=True)
            for cells in zip(*(cells for _, cells in columns), strict=True):
                drawn.add_row(*cells)
            console.print(drawn)
        totals = Table.grid(padding=(0, 2))
        for value, what in table.totals():
            totals.add_row(f"[bold]{what}[/]" if value else what, value)
        console.print(totals)
