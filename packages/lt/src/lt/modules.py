"""How `lt.callbacks` and its like come to be: modules made from the table of names when they are imported.

A name is imported from its package when it is first asked for (PEP 562), and kept. Paths that are not in lt's own table
are Lightning's; lt-compat knows those.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module, util
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from lt.names import DOCS, NAMES

__all__ = ["Finder", "listing", "look_up", "public"]

_REAL = ("compat", "names", "version")
"""Modules of lt with code of their own."""


class Finder(MetaPathFinder):
    """Finds the modules below ``lt`` that are no files."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root, _, below = fullname.partition(".")
        if root != "lt":
            return None
        if _table(below) is None:
            module, _, name = below.rpartition(".")
            # `from lt import name` comes here after the module was asked; importlib.util.find_spec wants an answer
            asked = sys._getframe(2).f_code is util.find_spec.__code__
            if not asked and (meant := instead(module, name)):
                raise ModuleNotFoundError(f"lt{module and '.'}{module} has no {name}.{meant}")
            return None
        return util.spec_from_loader(fullname, _Maker(), is_package=True)


class _Maker(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Names(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: names are looked up when they are asked for."""


class _Names(ModuleType):
    """A module that holds names only."""

    def __init__(self, name: str) -> None:
        below = name.partition(".")[2]
        super().__init__(name, DOCS.get(below, f"Names of {name}."))
        self.__all__ = public(below)

    def __getattr__(self, name: str) -> Any:
        return look_up(self.__name__.partition(".")[2], name)

    def __dir__(self) -> list[str]:
        return listing(self.__name__.partition(".")[2])


def look_up(below: str, name: str) -> Any:
    """Return a name of the module ``lt.<below>``, and keep it there; its submodules are names too.

    Raises:
        AttributeError: for one that is not there.
        ModuleNotFoundError: for one of a package that is not installed; says which.
    """
    own = f"lt.{below}" if below else "lt"
    origin, _, attribute = (_table(below) or {}).get(name, "").partition(":")
    child = f"{below}.{name}" if below else name
    if origin:
        value = getattr(_imported(origin, f"{own}.{name}"), attribute)
    elif not name.startswith("__") and (child in _REAL or _table(child) is not None):
        value = import_module(f"lt.{child}")
    else:
        hint = "" if name.startswith("_") else instead(below, name)
        raise AttributeError(f"module {own!r} has no attribute {name!r}.{hint}", name=name, obj=sys.modules.get(own))
    setattr(sys.modules[own], name, value)
    return value


def instead(below: str, name: str) -> str:
    """Return what to write for a name that ``lt.<below>`` does not have: another module's, or another trainer's."""
    from lt_core.errors import counterpart  # imports torch

    homes = (f" Write lt.{module}.{name}.".replace("..", ".") for module, names in NAMES.items() if name in names)
    return counterpart(f"lt.{below}".strip("."), name) or next(homes, "")


def public(below: str) -> list[str]:
    """Return the names of ``from lt.<below> import *``: lt's own, and for ``lt`` itself its modules."""
    return sorted({*(_table(below) or ()), *(() if below else (*filter(None, NAMES), "compat"))})


def listing(below: str) -> list[str]:
    """Return the result of ``dir`` of a module."""
    return sorted({*vars(sys.modules[f"lt.{below}" if below else "lt"]), *public(below)})


def _table(below: str) -> Mapping[str, str] | None:
    """Return the names of a module below ``lt``; None where there is no such module."""
    return NAMES[below] if below in NAMES else _paths_of_lightning().get(below)


@cache
def _paths_of_lightning() -> Mapping[str, Mapping[str, str]]:
    if util.find_spec("lt_compat") is None:
        return {}
    found: Mapping[str, Mapping[str, str]] = import_module("lt_compat.names.paths").NAMES
    return found


def _imported(origin: str, wanted: str) -> ModuleType:
    """Import where a name comes from.

    Raises:
        ModuleNotFoundError: says which package brings it, where that is not installed.
    """
    try:
        return import_module(origin)
    except ModuleNotFoundError as error:
        package = origin.partition(".")[0]
        if error.name != package:
            raise
        from lt_core.plugins import install_hint

        brings = package.replace("_", "-")
        raise ModuleNotFoundError(f"{wanted} comes with {brings}: {install_hint(brings)}", name=package) from None
