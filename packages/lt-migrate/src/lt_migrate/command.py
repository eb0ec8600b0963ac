"""``lt migrate``: a project written for Lightning in the words of lt. Shows a diff first; ``--write`` changes files."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from lt_compat.names.counterparts import ROOTS, counterpart, path_below_root
from lt_migrate.old_spellings import Left

__all__ = ["Change", "MigrationError", "main", "migrate_text", "parser"]


class MigrationError(Exception):
    """A file that cannot be rewritten at all: shown without a traceback, exit status 2. Its code stands at the end."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(f"{message} [{code}]")
        self.code = code


class Change(NamedTuple):
    """One file before and after.

    Attributes:
        path: the file.
        old: its text.
        new: its text in the words of lt.
        left: the places that could not be rewritten.
    """

    path: Path
    old: str
    new: str
    left: list[Left]


_ROOT = r"(?:pytorch_lightning|lightning\.pytorch|lightning_fabric|lightning)"
_CLASS_PATH = re.compile(rf"\w+://\S+|(?<![\w.-])(?P<path>{_ROOT}(?:\.\w+)*\.[A-Z]\w*)")
_REQUIREMENT = re.compile(r"(?<![\w./-])(?:pytorch[-_]lightning|lightning)(?=\s*(?:[\[=<>~!;,\"']|$))", re.MULTILINE)
_CONFIGS = (".yaml", ".yml")
_REQUIREMENTS = ("pyproject.toml", "setup.py", "setup.cfg", "environment.yml", "environment.yaml")
_SKIPPED = (".git", ".venv", "venv", "node_modules", "__pycache__", "build", "dist", ".nox", ".tox", "site-packages")
_MAGIC = re.compile(r"^\s*[%!?]", re.MULTILINE)


def migrate_text(text: str) -> tuple[str, list[Left]]:
    """Return Python source in the words of lt, and notes on the places to look at.

    Args:
        text: the source of one module.

    Raises:
        MigrationError: when it is no Python that can be parsed.
    """
    from lt_migrate import rewriter  # libcst takes a while, and --help needs it not

    return rewriter.rewrite(text)


def main(words: Sequence[str]) -> int:
    """Show or write the changes; return the exit status: 1 with ``--check`` where something would change."""
    options = parser().parse_args(words)
    try:
        if find_spec("lt") is None:
            from lt_core.plugins import install_hint

            raise MigrationError(f"the names to write are lt's: {install_hint('lt')}", code="LT165")
        changes = [change for path in options.paths for change in _changes(path)]
    except MigrationError as error:
        print(f"lt migrate: error: {error}", file=sys.stderr)
        return 2
    for change in changes:
        _show(change)
    _show_left(changes)
    changed = [change for change in changes if change.new != change.old]
    if options.write:
        for change in changed:
            _write(change)
        print(f"\n{len(changed)} files written.")
    elif changed:
        print(f"\n{len(changed)} files would change; nothing is written yet. To write them: lt migrate --write ...")
    else:
        print("Nothing to change.")
    return 1 if options.check and changed else 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command: a shell completes by it."""
    made = argparse.ArgumentParser(
        prog="lt migrate",
        allow_abbrev=False,
        description="Rewrite a project that uses lightning or pytorch_lightning for lt.",
    )
    made.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files, or folders with all below them")
    made.add_argument("--write", action="store_true", help="change the files")
    made.add_argument("--check", action="store_true", help="exit with status 1 where something would change")
    return made


def _changes(path: Path) -> Iterator[Change]:
    if not path.exists():
        raise MigrationError(f"{path} is not there.", code="LT169")
    for file in _files(path) if path.is_dir() else [path]:
        try:
            with file.open(encoding="utf-8", newline="") as stream:  # keeps line ends
                text = stream.read()
        except (UnicodeDecodeError, OSError):
            continue
        change = _change(file, text)
        if change is not None and (change.new != change.old or change.left):
            yield change


def _files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.endswith(".egg-info"))
        yield from (Path(here) / name for name in sorted(names))


def _change(file: Path, text: str) -> Change | None:
    if not re.search(_ROOT + r"|pytorch-lightning", text):
        return None
    if file.name in _REQUIREMENTS or (file.name.startswith("requirements") and file.suffix == ".txt"):
        return Change(file, text, text, _requirements(text))
    if file.suffix == ".py":
        try:
            new, left = migrate_text(text)
        except SyntaxError as error:
            return Change(
                file, text, text, [Left(error.lineno or 1, str(error.msg), "no Python of today: left as it is")]
            )
        return Change(file, text, new, left)
    if file.suffix in _CONFIGS:
        return Change(file, text, *_config(text))
    if file.suffix == ".ipynb":
        try:
            return Change(file, text, *_notebook(text))
        except json.JSONDecodeError as error:
            return Change(file, text, text, [Left(error.lineno, error.msg, "no notebook: left as it is")])
    return None


def _requirements(text: str) -> list[Left]:
    places = [(text.count("\n", 0, match.start()) + 1, match[0]) for match in _REQUIREMENT.finditer(text)]
    return [Left(line, what, "write lt, with the extras that you use") for line, what in places]


def _config(text: str) -> tuple[str, list[Left]]:
    """Return a YAML text with its class paths rewritten."""
    left: list[Left] = []

    def rewritten(match: re.Match[str]) -> str:
        if match["path"] is None:  # the address of a page
            return match[0]
        module, _, name = match["path"].rpartition(".")
        below = path_below_root(module)
        found = counterpart(below, name) if below is not None else None
        if found is None:
            left.append(Left(text.count("\n", 0, match.start()) + 1, match[0], "lt has no class of this name"))
            return match[0]
        return f"{found.module}.{found.name}"

    return _CLASS_PATH.sub(rewritten, text), left


def _notebook(text: str) -> tuple[str, list[Left]]:
    """Return a notebook with its code cells rewritten; cells with magic commands are left alone."""
    book = json.loads(text)
    left: list[Left] = []
    changed = False
    for number, cell in enumerate(book.get("cells", ()), 1):
        source = "".join(cell.get("source", ()))
        if cell.get("cell_type") != "code" or not any(root.partition(".")[0] in source for root in ROOTS):
            continue
        if _MAGIC.search(source):
            left.append(Left(number, f"cell {number}", "it holds a magic command: change it by hand"))
            continue
        try:
            new, of_cell = migrate_text(source)
        except SyntaxError as error:
            left.append(Left(number, f"cell {number}: {error.msg}", "no Python of today: left as it is"))
            continue
        left += [Left(number, f"cell {number}: {item.what}", item.advice) for item in of_cell]
        if new != source:
            cell["source"] = new.splitlines(keepends=True)
            changed = True
    ending = "\n" if text.endswith("\n") else ""
    return (json.dumps(book, indent=1, ensure_ascii=False) + ending if changed else text), left


def _show(change: Change) -> None:
    lines = difflib.unified_diff(
        change.old.splitlines(keepends=True),
        change.new.splitlines(keepends=True),
        str(change.path),
        f"{change.path} (lt)",
    )
    for line in lines:
        print(line if line.endswith("\n") else f"{line}\n", end="")


def _show_left(changes: Sequence[Change]) -> None:
    """Print the places to look at, grouped by advice."""
    by_advice: dict[str, list[str]] = {}
    for change in changes:
        for item in change.left:
            by_advice.setdefault(item.advice, []).append(f"{change.path}:{item.line}: {item.what}")
    if by_advice:
        print("\nLeft for you to look at:")
    for advice, places in by_advice.items():
        print(f"  {advice}:")
        for place in places:
            print(f"    {place}")


def _write(change: Change) -> None:
    path = change.path.resolve()  # a link stays one
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(change.new, "utf-8", newline="")
    beside.chmod(path.stat().st_mode)
    beside.replace(path)
