"""``lt plugins``: plug-ins of the installed packages, and whether they can be imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint

from lt_cli.command import CommandParser
from lt_cli.plugin_list import PREFIX, Plugin, installed_plugins, plugin_lines


def parser() -> CommandParser:
    """Return the parser of the command."""
    made = CommandParser(prog="lt plugins", description="List the names that installed packages provide.")
    made.add_argument("group", nargs="?", help="only this kind: strategies, loggers, callbacks...")
    made.add_argument("--check", action="store_true", help="import each one, and say which cannot be")
    return made


def main(words: Sequence[str]) -> int:
    """Print the plug-ins of all groups, or of one; return the exit status."""
    options = parser().parse_args(words)
    plugins = installed_plugins()
    groups = sorted({plugin.group for plugin in plugins})
    if options.group is not None and options.group not in groups:
        print(
            f"lt plugins: no installed package provides any {options.group!r}. Groups: {', '.join(groups)}. [LT150]",
            file=sys.stderr,
        )
        return 2
    chosen = [plugin for plugin in plugins if options.group in (None, plugin.group)]
    if options.check:
        return _check(chosen)
    for line in plugin_lines(chosen):
        print(line)
    return 0


def _check(plugins: Sequence[Plugin]) -> int:
    """Import each plug-in; print a line for each and return 1 where one fails."""
    failed = 0
    for plugin in plugins:
        try:
            EntryPoint(plugin.name, plugin.origin, PREFIX + plugin.group).load()
            outcome = "ok"
        except Exception as error:
            failed += 1
            outcome = f"cannot be imported: {type(error).__name__}: {error}"
        print(f"{plugin.group} {plugin.name} ({plugin.package}): {outcome}")
    return min(failed, 1)
