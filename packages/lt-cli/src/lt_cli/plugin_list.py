"""Plug-ins of the installed packages, by name and package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import NamedTuple

PREFIX = "lt."


class Plugin(NamedTuple):
    """One name that a package provides.

    Attributes:
        group: the kind of thing, without the prefix ``lt.``: ``strategies``.
        name: in configurations.
        package: the package that brings it.
        version: of that package.
        origin: ``module:object``.
    """

    group: str
    name: str
    package: str
    version: str
    origin: str


@cache
def installed_plugins() -> list[Plugin]:
    """Return all entry points in the groups ``lt.*``, sorted by group and name; imports none of them."""
    everything = entry_points()
    groups = [group for group in everything.groups if group.startswith(PREFIX)]
    return sorted({_plugin(entry) for group in groups for entry in everything.select(group=group)})


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


def _plugin(entry: EntryPoint) -> Plugin:
    return Plugin(entry.group.removeprefix(PREFIX), entry.name, *_package(entry.dist), entry.value)


@cache  # a package's description is a file that is read and parsed each time
def _package(package: Distribution | None) -> tuple[str, str]:
    return (package.name, package.version) if package else ("?", "?")
