"""A page of help: common arguments on one screen, all on request. Imports neither torch nor jsonargparse."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

NOT_SHOWN = "a former spelling"
"""Instead of a help text, for arguments that no page shows."""

COMMON = (
    "max_epochs",
    "max_steps",
    "accelerator",
    "devices",
    "strategy",
    "precision",
    "callbacks",
    "logger",
    "fast_dev_run",
    "limit_train_batches",
    "val_check_interval",
    "accumulate_grad_batches",
    "gradient_clip_val",
    "log_every_n_steps",
    "default_root_dir",
)
"""The Trainer's arguments that the first page shows."""

_WIDEST = 110
_LONGEST = 36  # a longer name has its text in the next line


class Row(NamedTuple):
    """One argument on a page.

    Attributes:
        flag: how it is written: ``--trainer.max_epochs``.
        type: of its value; empty for a flag.
        doc: its purpose.
        group: the heading under which it stands.
        common: whether it is on the first page.
        choices: values that a shell completes; ``"FILE"`` alone stands for files.
    """

    flag: str
    type: str
    doc: str
    group: str = "options"
    common: bool = True
    choices: tuple[str, ...] = ()


def page(usage: str, summary: str, rows: Iterable[Row], footer: Sequence[str] = (), *, everything: bool = False) -> str:
    """Return the text of a page.

    Args:
        usage: the line behind ``usage:``; none where it is empty.
        summary: of the command.
        rows: its arguments, in the order of their groups.
        footer: lines below.
        everything: all rows, with their types; otherwise the common ones.
    """
    width = min(shutil.get_terminal_size().columns if "COLUMNS" in os.environ or os.isatty(1) else 100, _WIDEST)
    shown = [row for row in rows if everything or row.common]
    indent = max((len(row.flag) + 4 for row in shown if len(row.flag) <= _LONGEST), default=20)
    lines = [*([f"usage: {usage}", ""] if usage else ()), *textwrap.wrap(plain(summary), width)]
    for group in dict.fromkeys(row.group for row in shown):
        lines += ["", f"{group}:"]
        for row in (row for row in shown if row.group == group):
            lines += _lines(row, width, indent, everything)
    return "\n".join([*lines, "", *footer]).rstrip() + "\n"


def plain(doc: str) -> str:
    """Return a docstring's words without its markup."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"\1", doc)
    return " ".join(text.replace("``", "").split())


def short_type(annotation: str) -> str:
    """Return a type as a reader writes it: ``int`` for ``int | None``, classes without their modules."""
    text = re.sub(r"<class '([^']+)'>", r"\1", annotation)
    text = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text).replace("NoneType", "None")
    while "Union[" in text or "Optional[" in text:
        text, before = re.sub(r"(?:Union|Optional)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]", _alternatives, text), text
        if text == before:
            break
    return re.sub(r" \| (?:None|null)\b(?!\])|Literal\[[^\]]*\] \| (?=str)", "", text)


def _alternatives(match: re.Match[str]) -> str:
    return " | ".join(part.strip() for part in re.split(r",(?![^\[]*\])", match[1]))


def _lines(row: Row, width: int, indent: int, everything: bool) -> list[str]:
    """Return the lines of one argument: its name, and its purpose in the column beside it."""
    doc, head = plain(row.doc).removesuffix("."), f"  {row.flag}"
    if not everything:
        return [f"{head:{indent}}{textwrap.shorten(doc, width - indent, placeholder='...')}".rstrip()]
    doc = f"{doc} ({row.type})".strip() if row.type else doc
    first, *more = textwrap.wrap(doc, max(width - indent, 20)) or [""]
    start = [head, " " * indent + first] if len(head) + 2 > indent else [f"{head:{indent}}{first}".rstrip()]
    return [*start, *(" " * indent + line for line in more)]
