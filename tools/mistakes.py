"""Write docs/mistakes.md: what users get wrong and what lt answers, from the tables that the tests check.

uv run python tools/mistakes.py           writes it
uv run python tools/mistakes.py --check   fails where the page is not what the table says
"""

import contextlib
import re
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import torch

ROOT = Path(__file__).parent.parent
TABLES = [
    ROOT / "tests" / name
    for name in (
        "lt_loops/test_mistakes.py",
        "lt_loops/test_mistakes_in_runs.py",
        "integration/test_mistakes_with_callbacks.py",
    )
]
PAGE = ROOT / "docs" / "mistakes.md"
HEAD = """# Mistakes, and what lt answers

Each mistake below is an error before the first step, or at the first step that shows it. The message says what was
expected, what was received and the way out; several mistakes in one call of `Trainer` are one error. In the
examples `self` is the module, `net` another one, `loader` has four batches, `nine_batches` nine, `unsized` no length;
`optimizer` and `scheduler` are the module's own, `plateau` is a `ReduceLROnPlateau`, `other` is another model.
`fit(...)` stands for `Trainer(...).fit(...)`.

<!-- Written by tools/mistakes.py from tests/lt_loops/test_mistakes.py, test_mistakes_in_runs.py and
tests/integration/test_mistakes_with_callbacks.py. -->
"""


def page() -> str:
    """Return the page as the tables have it; mistakes are made in an empty folder, whose files some messages name."""
    no_gpu = mock.patch.multiple(torch.cuda, device_count=lambda: 0, is_available=lambda: False)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), no_gpu:
        return made()


def made() -> str:
    """Make all mistakes and return the page."""
    parts = [HEAD]
    for path in TABLES:
        table = runpy.run_path(str(path))
        for title, mistakes in table["MISTAKES"].items():
            parts.append(f"\n## {title}\n\n| You write | lt answers |\n| --- | --- |\n")
            parts += [line(mistake, table["message_of"](mistake)) for mistake in mistakes]
    return "".join(parts)


def line(mistake: Any, error: Exception) -> str:
    """Return one row: the mistake as code, and the message with the parts that look like code marked."""
    notes = getattr(error, "__notes__", ())
    text = "; ".join([short(str(error)) if notes else str(error), *notes])
    message = text.replace(str(TABLES[0]), "notes.txt").replace("\n", " ")
    return f"| {code(mistake.wrote)} | {type(error).__name__}: {cell(message)} |\n"


def short(text: str) -> str:
    """Return an error of torch's own without the tables that some have, which name files of this machine."""
    return text if len(text) <= 400 else f"{text[:200].rpartition(' ')[0]} ..."


def code(text: str) -> str:
    """Return ``text`` as code in a cell of a table."""
    return "`" + text.replace("|", "\\|") + "`"


def cell(text: str) -> str:
    """Return prose for a cell: signs that Markdown or HTML would read are shown as they are."""
    shown = re.sub(r"0x[0-9a-f]{6,}", "0x...", text)
    shown = re.sub(r"<([\w ]+)>", r"‹\1›", shown).replace("<", "‹").replace(">", "›")
    return re.sub(r"([|*_`\[\]{}])", r"\\\1", shown)


def main() -> int:
    """Write the page, or with ``--check`` compare it; return the exit status."""
    text = page()
    if "--check" in sys.argv[1:]:
        current = PAGE.exists() and PAGE.read_text("utf-8") == text
        print("docs/mistakes.md is current" if current else "docs/mistakes.md is old: run python tools/mistakes.py")
        return 0 if current else 1
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
