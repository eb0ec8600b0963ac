"""Names of a package that load when they are used, and those that it has given to another package."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import version
from typing import Any

from lt_core.errors import PluginError
from lt_core.plugins import BROUGHT_BY, install_hint

__all__ = ["load_name"]


def load_name(package: str, where: Mapping[str, str], name: str) -> Any:
    """Return a name of a package whose names load when they are used: what its ``__getattr__`` calls.

    A name that the package has given to another one is still found here, where that is installed.

    Args:
        package: its import name.
        where: the module of each name: absolute, or below the package as in ``".stopping.timer"``.
        name: what is asked for.

    Raises:
        AttributeError: for a name that nobody knows.
        PluginError: for a name of a package that is not installed; says which.
    """
    taken_over = BROUGHT_BY.get(f"names of {package}", {}).get(name)
    if name == "__version__":
        value: Any = version(package.replace("_", "-"))
    elif name in where:
        value = getattr(import_module(where[name], package), name)
    elif taken_over is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    elif PathFinder.find_spec(module := taken_over.replace("-", "_")) is None:
        raise PluginError(f"{package}.{name} comes with {taken_over}: {install_hint(taken_over)}", code="LT105")
    else:
        value = getattr(import_module(module), name)
    vars(sys.modules[package])[name] = value
    return value
