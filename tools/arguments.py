"""Write the arguments of the Trainer into lt_loops/trainer.py: signature and docstring, from the table of arguments.

uv run python tools/arguments.py           writes them
uv run python tools/arguments.py --check   fails where they are not what the table says (`nox -s types`)
"""

import builtins
import re
import sys
import textwrap
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from lt_loops.arguments.table import ARGUMENTS, Settings

FILE = Path(__file__).parent.parent / "packages/lt-loops/src/lt_loops/trainer.py"
ROWS = [row for row in fields(Settings) if row.name in ARGUMENTS and ARGUMENTS[row.name].parameter]


def signature() -> str:
    """Return the parameters of the constructor, one a line."""
    lines = []
    for row in ROWS:
        kind = (ARGUMENTS[row.name].written or str(row.type)).removesuffix(" | None").replace("'", '"')
        default = row.default if ARGUMENTS[row.name].none_counts else None
        shadows = "  # noqa: A002  (torch's name of it)" if hasattr(builtins, row.name) else ""
        line = f"        {row.name}: {kind} | None = {default},{shadows}\n"
        if len(line) > 121:  # as ruff breaks it
            line = re.sub(r" \| (?![^\[]*\])", "\n        | ", line)
        lines.append(line)
    return "".join(lines)


def lines_of_docstring() -> str:
    """Return the lines below ``Args:``."""
    texts = [f"{row.name}: {ARGUMENTS[row.name].doc}{default_of(row)}." for row in ROWS]
    return "".join(
        textwrap.fill(
            text,
            120,
            initial_indent=" " * 8,
            subsequent_indent=" " * 12,
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
        for text in texts
    )


def default_of(row: Field[Any]) -> str:
    """Return what the docstring says of a default; nothing of those that its line says in words."""
    if row.default in (None, MISSING, ()):
        return ""
    return f'; default: ``"{row.default}"``' if isinstance(row.default, str) else f"; default: {row.default}"


def written(text: str) -> str:
    """Return the source of the Trainer with the arguments of the table."""
    text = re.sub(r"(?s)(    Args:\n).*?(\n    Raises:)", lambda m: m[1] + lines_of_docstring() + m[2], text, count=1)
    return re.sub(
        r"(?s)(        \*,\n).*?(        \*\*unknown: Never,\n)", lambda m: m[1] + signature() + m[2], text, count=1
    )


def main() -> int:
    """Write the file, or with ``--check`` compare it; return the exit status."""
    before = FILE.read_text("utf-8")
    text = written(before)
    if "--check" in sys.argv[1:]:
        print(f"{FILE.name} is {'current' if text == before else 'old: run python tools/arguments.py'}")
        return int(text != before)
    FILE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
