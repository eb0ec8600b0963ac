"""``lt new``: a project that runs as it is, or a plug-in package with its test kit wired in."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from string import Template

from lt_cli.command import CommandError, CommandParser

KINDS = {
    "project": "a small project: module, datamodule, configuration, test",
    "callback": "a plug-in package with a callback of your own, and the kit of callbacks as its tests",
    "logger": "a plug-in package with a logger of your own, and the kit of loggers as its tests",
    "strategy": "a plug-in package with a strategy of your own, and the conformance kit as its tests",
    "step": "a plug-in package with a training step of your own, and the kit of steps as its tests",
    "checkpoint": "a plug-in package with a checkpoint format of your own, and the kit of checkpoints as its tests",
    "launcher": "a plug-in package with a launcher of your own, and the kit of launchers as its tests",
    "accelerator": "a plug-in package with a kind of device of your own, and the kit of accelerators as its tests",
}
"""Kinds of projects, each the name of a folder below ``templates``."""

_ENDING = ".tmpl"  # so that no tool takes a template for Python


def create(kind: str, name: str, parent: Path) -> Path:
    """Write the files of a new project or package, and return its folder.

    Args:
        kind: one of :data:`KINDS`.
        name: of the project or plug-in.
        parent: where the folder goes.

    Raises:
        CommandError: for a name that cannot be imported, or a folder that is there already.
    """
    words = _words_for(kind, name)
    target = parent / words["folder"]
    if target.exists():
        raise CommandError(f"{target} is there already. Take another name, or another place by --into.", code="LT163")
    for path, text in _filled(files("lt_cli") / "templates" / kind, words):
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return target


def parser() -> CommandParser:
    """Return the parser of the command."""
    made = CommandParser(prog="lt new", description="Write a project or a plug-in package.")
    kinds = made.add_subparsers(dest="kind", required=True, metavar="KIND")
    for kind, summary in KINDS.items():
        of_kind = kinds.add_parser(kind, help=summary, description=f"Write {summary}.")
        of_kind.add_argument("name", help="its name: a Python identifier")
        of_kind.add_argument("--into", default=".", type=Path, help="the folder in which it is made")
    return made


def main(words: Sequence[str]) -> int:
    """Make the files and print the next commands; return the exit status."""
    options = parser().parse_args(words)
    try:
        target = create(options.kind, options.name, options.into)
    except CommandError as error:
        print(f"lt new: error: {error}", file=sys.stderr)
        return 2
    for file in sorted(path for path in target.rglob("*") if path.is_file()):
        print(f"  {file}")
    print(f"\nNext:\n  cd {target}\n" + "\n".join(f"  {line}" for line in _next(options.kind)))
    return 0


def _next(kind: str) -> tuple[str, ...]:
    """Return the lines to type after a project or package was made."""
    if kind == "project":
        return ("lt fit --config run.yaml", "pytest")
    pip = "uv pip" if find_spec("pip") is None else "pip"  # uv's environments have none: `pip` is another Python's
    return (f'{pip} install -e ".[test]"', "pytest")


def _words_for(kind: str, name: str) -> dict[str, str]:
    """Return the values for the templates of a kind."""
    plain = name.replace("-", "_").lower()
    if not plain.isidentifier() or keyword.iskeyword(plain) or not plain.isascii():
        raise CommandError(
            f"{name!r} is not a name that Python can import: expected letters, digits and underscores, no digit first.",
            code="LT162",
        )
    if kind == "project" and (plain in sys.stdlib_module_names or find_spec(plain) is not None):
        raise CommandError(
            f"{name!r} is the name of a module that is installed already, and would hide it. Take another.",
            code="LT162",
        )
    package = plain if kind == "project" else f"lt_{kind}_{plain}"
    return {
        "folder": package if kind == "project" else package.replace("_", "-"),
        "package": package,
        "name": plain,
        "class_name": "".join(part.capitalize() for part in re.split("_+", plain)),
    }


def _filled(folder: Traversable, words: dict[str, str], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and contents of each file below a folder of templates."""
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name.replace('__package__', words['package'])}"
        if entry.is_dir():
            yield from _filled(entry, words, f"{name}/")
        elif name.endswith(_ENDING):
            yield name.removesuffix(_ENDING), Template(entry.read_text("utf-8")).substitute(words)
