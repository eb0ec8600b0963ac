"""Which names Lightning has, and which of them ``lt.compat`` answers.

    python tools/lightning_names.py list SITE_PACKAGES    # writes lt_compat/names/lightning_2_6.txt
    uv run python tools/lightning_names.py check                # prints what has no answer, and how many only stand in

The first reads Lightning's sources and imports nothing, so that optional parts count as well. Public is what a module
defines, and what a package re-exports from Lightning, without an underscore in the path or the name.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

LIST = Path(__file__).parents[1] / "packages/lt-compat/src/lt_compat/names/lightning_2_6.txt"
_SKIPPED = ("lightning.pytorch.trainer.call", "lightning.fabric.cli")
"""A module of functions that the Trainer calls of itself (all begin with an underscore), and a command."""
_OTHERS = ("*", "formatter", "log", "logger", "warning_cache")
"""What modules have for themselves."""


def modules(site: Path) -> Iterator[tuple[str, Path]]:
    """Yield the public modules of an installed Lightning, with their files."""
    for path in sorted((site / "lightning").rglob("*.py")):
        parts = path.relative_to(site).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        name = ".".join(parts)
        if not any(part.startswith("_") for part in parts) and name not in _SKIPPED:
            yield name, path


def public_names(path: Path) -> set[str]:
    """Return the public names of a module, as its source says them."""
    tree = ast.parse(path.read_text("utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and path.name == "__init__.py" and _of_lightning(node):
            found |= {alias.asname or alias.name for alias in node.names}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return {name for name in found if not name.startswith("_") and name not in _OTHERS}


def _of_lightning(node: ast.ImportFrom) -> bool:
    return bool(node.level) or (node.module or "").partition(".")[0] in ("lightning", "lightning_fabric")


def answered(lines: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield what ``lt.compat`` answers for each name, as ``module:name``; an error where it does not."""
    from lt_compat import install

    install()
    for line in lines:
        name, _, names = line.partition(":")
        try:
            module = import_module(name)
        except ImportError as error:
            yield name, error
            continue
        for each in names.split():
            try:
                yield f"{name}:{each}", getattr(module, each)
            except (AttributeError, ImportError) as error:
                yield f"{name}:{each}", error


def main() -> int:
    """List or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["list", "check"])
    parser.add_argument("site", nargs="?", type=Path)
    given = parser.parse_args()
    if given.what == "list":
        listed = (f"{name}: {' '.join(sorted(public_names(path)))}".rstrip() for name, path in modules(given.site))
        LIST.write_text("\n".join(listed) + "\n", "utf-8")
        return 0
    from lt_compat.names.stand_ins import is_stand_in

    found = dict(answered(LIST.read_text("utf-8").splitlines()))
    missing = {name: error for name, error in found.items() if isinstance(error, (AttributeError, ImportError))}
    standing = [name for name, value in found.items() if is_stand_in(value)]
    for name, why in missing.items():
        print(name, "|", why)
    print(f"{len(found)} names: {len(missing)} without an answer, {len(standing)} only stand in: {' '.join(standing)}")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
