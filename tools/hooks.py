"""Write docs/hooks.md: the loops as pseudocode and the table of hooks, from the code.

uv run python tools/hooks.py           writes it
uv run python tools/hooks.py --check   fails where the page is not what the code says
"""

import inspect
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lt_core.callback import Callback
from lt_core.hooks import CALLBACK_HOOKS, MODULE_HOOKS
from lt_core.module import LightningModule
from lt_loops.evaluate import run_evaluate
from lt_loops.fit import run_fit

PAGE = Path(__file__).parent.parent / "docs" / "hooks.md"
FIT_ORDER = runpy.run_path(str(Path(__file__).parent / "fit_order.py"))["FIT_ORDER"]
HEAD = """# Hooks, and the loop that calls them

Where your code runs: every hook of modules, datamodules and callbacks, in the order of the calls.

In each hook the callbacks come first, in their order, then the module. Callbacks that monitor (early stopping,
checkpoints) come after the module in `on_train_epoch_end`. A hook that nobody defines costs nothing. On a callback each
hook gets `trainer, pl_module` first.

<!-- Written by tools/hooks.py from lt_core.hooks and the docstrings of the loops. -->
"""


def page() -> str:
    """Return the page as the code has it."""
    lines = [HEAD, "## fit\n", pseudocode(run_fit), "\n## validate and test\n", pseudocode(run_evaluate)]
    lines += ["\n## All hooks\n", "| hook | module | callback | |", "| --- | --- | --- | --- |"]
    others = sorted((MODULE_HOOKS | CALLBACK_HOOKS) - set(FIT_ORDER))
    lines += [row(name) for name in (*FIT_ORDER, *others)]
    return "\n".join(lines) + "\n"


def row(name: str) -> str:
    """Return a hook's row of the table."""
    on_module = getattr(LightningModule, name, None) if name in MODULE_HOOKS else None
    on_callback = getattr(Callback, name, None) if name in CALLBACK_HOOKS else None
    what = (inspect.getdoc(on_module or on_callback) or "").split("\n\n")[0].replace("\n", " ")
    return f"| `{name}` | {arguments(on_module)} | {arguments(on_callback)} | {what} |"


def pseudocode(function: Callable[..., Any]) -> str:
    """Return the indented block of a function's docstring."""
    doc = inspect.getdoc(function) or ""
    block = doc.split("::\n", 1)[1]
    lines = []
    for line in block.splitlines():
        if line.strip() and not line.startswith("    "):
            break
        lines.append(line.removeprefix("    "))
    return "```text\n" + "\n".join(lines).strip("\n") + "\n```"


def arguments(hook: object) -> str:
    """Return the arguments of a hook as a cell; empty where it is none."""
    if not callable(hook):
        return ""
    stars: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    taken = [p for p in inspect.signature(hook).parameters.values() if p.name not in ("self", "trainer", "pl_module")]
    return f"`({', '.join(stars.get(p.kind, '') + p.name for p in taken)})`"


def main() -> int:
    """Write the page, or with ``--check`` compare it; return the exit status."""
    text = page()
    if "--check" in sys.argv[1:]:
        current = PAGE.exists() and PAGE.read_text("utf-8") == text
        print("docs/hooks.md is current" if current else "docs/hooks.md is old: run python tools/hooks.py")
        return 0 if current else 1
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
