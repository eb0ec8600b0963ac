"""``lt plugins``: what installed packages provide by name, and which package brings each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from lt_cli.command_parser import CommandParser

__all__ = ["Plugin", "installed_plugins", "main", "parser", "plugin_lines"]

_PREFIX = "lt."


class Plugin(NamedTuple):
    """One name that a package provides.

    Attributes:
        group: the kind of thing, without the prefix ``lt.``: ``strategies``.
        name: what users write.
        package: the package that brings it.
        version: of that package.
        origin: ``module:object``.
    """

    group: str
    name: str
    package: str
    version: str
    origin: str


def installed_plugins() -> list[Plugin]:
    """Return all entry points in the groups ``lt.*``, sorted by group and name; imports none of them."""
    everything = entry_points()
    groups = [group for group in everything.groups if group.startswith(_PREFIX)]
    packages: dict[int, tuple[str, str]] = {}  # a package's description is a file that is read and parsed each time
    return sorted({_plugin(entry, packages) for group in groups for entry in everything.select(group=group)})


def plugin_lines(plugins: Sequence[Plugin]) -> list[str]:
    """Return a table of plug-ins: one line for each package of a group, its names after it."""
    lines: list[str] = []
    width = max((len(plugin.package) + len(plugin.version) + 1 for plugin in plugins), default=0)
    for group in dict.fromkeys(plugin.group for plugin in plugins):
        lines.append(f"{group}:")
        members = [plugin for plugin in plugins if plugin.group == group]
        for package, version in dict.fromkeys((plugin.package, plugin.version) for plugin in members):
            names = ", ".join(plugin.name for plugin in members if plugin.package == package)
            lines.append(f"  {f'{package} {version}':{width}}  {names}")
    return lines


def parser() -> CommandParser:
    """Return the parser of the command."""
    made = CommandParser(prog="lt plugins", description="List what installed packages provide by name.")
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
            EntryPoint(plugin.name, plugin.origin, _PREFIX + plugin.group).load()
            outcome = "ok"
        except Exception as error:
            failed += 1
            outcome = f"cannot be imported: {type(error).__name__}: {error}"
        print(f"{plugin.group} {plugin.name} ({plugin.package}): {outcome}")
    return min(failed, 1)


def _plugin(entry: EntryPoint, packages: dict[int, tuple[str, str]]) -> Plugin:
    if id(entry.dist) not in packages:
        packages[id(entry.dist)] = (entry.dist.name, entry.dist.version) if entry.dist else ("?", "?")
    return Plugin(entry.group.removeprefix(_PREFIX), entry.name, *packages[id(entry.dist)], entry.value)
