"""The table of results that ``validate`` and ``test`` print."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from lt_core.states import Stage

_LEAST = 10
"""Columns that names of metrics have at least, however narrow the terminal."""


def format_results(results: Sequence[Mapping[str, float]], stage: str, width: int | None = None) -> str:
    """Return the results as a table: a line for each metric, a column for each loader; empty for no results.

    Args:
        results: metrics by name, for each loader.
        stage: ``"validate"`` or ``"test"``, for the heading.
        width: columns of the terminal; by default of stdout. Loaders that do not fit go into more tables below.
    """
    # without the suffix that names the loader: the columns do so here
    plain = (name.removesuffix(f"/dataloader_idx_{i}") for i, row in enumerate(results) for name in row)
    names = list(dict.fromkeys(plain))
    if not names:
        return ""
    title = f"{Stage(stage).capitalize()} metric"
    labels = [f"DataLoader {i}" for i in range(len(results))]
    found = [[row.get(name, row.get(f"{name}/dataloader_idx_{i}")) for name in names] for i, row in enumerate(results)]
    columns = [[*map(_number, values)] for values in found]
    room = width or shutil.get_terminal_size().columns
    widths = [max(map(len, [label, *column])) for label, column in zip(labels, columns, strict=True)]
    beside = room - max(widths) - 7
    first = min(max(map(len, [title, *names])), max(beside if len(results) == 1 else min(beside, room // 2), _LEAST))
    tables = []
    for part in _parts(widths, room - first - 4):
        head = [title, *(labels[i] for i in part)]
        rows = [[name, *(columns[i][line] for i in part)] for line, name in enumerate(names)]
        tables.append(_box(head, rows, [first, *(widths[i] for i in part)]))
    return _drawable("\n".join(tables))


def _drawable(table: str) -> str:
    """Return the table as stdout can show it: with plain signs where its encoding has no lines."""
    try:
        table.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return table.translate(str.maketrans("─│┌┬┐├┼┤└┴┘", "-|+++++++++"))
    return table


def _number(value: float | None) -> str:
    """Return a number with six digits that count; nothing where a loader lacks the metric."""
    if value is None:
        return ""
    return f"{value:d}" if isinstance(value, int) and abs(value) < 1e6 else f"{float(value):.6g}"


def _parts(widths: Sequence[int], room: int) -> list[list[int]]:
    """Return which columns go into which table, so that each table is at most ``room`` wide beside its first column."""
    parts: list[list[int]] = [[]]
    used = 0
    for i, width in enumerate(widths):
        used += width + 3
        if parts[-1] and used > room:
            parts.append([])
            used = width + 3
        parts[-1].append(i)
    return parts


def _box(head: list[str], rows: list[list[str]], widths: list[int]) -> str:
    def rule(left: str, cross: str, right: str) -> str:
        return left + cross.join("─" * (width + 2) for width in widths) + right

    lines = [rule("┌", "┬", "┐"), *_row(head, widths), rule("├", "┼", "┤")]
    for row in rows:
        lines += _row(row, widths)
    return "\n".join([*lines, rule("└", "┴", "┘")])


def _row(cells: list[str], widths: list[int]) -> list[str]:
    """Return a row's lines: names that are too long go on in the next one, numbers stand at the right."""
    pieces = [
        [cell[i : i + width] for i in range(0, len(cell), width)] or [""]
        for cell, width in zip(cells, widths, strict=True)
    ]
    lines = []
    for name, *values in zip_longest(*pieces, fillvalue=""):
        numbers = (text.rjust(width) for text, width in zip(values, widths[1:], strict=True))
        lines.append(f"│ {' │ '.join([name.ljust(widths[0]), *numbers])} │")
    return lines
