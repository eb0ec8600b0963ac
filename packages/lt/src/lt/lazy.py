"""How the modules of lt hold names of other packages without importing them before they are used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["lazy"]


def lazy(
    module: str, names: Mapping[str, str], modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a module that holds names only.

    A name is imported when it is first asked for, and kept in the module from then on.

    Args:
        module: the module's ``__name__``.
        names: each public name with where it comes from, as ``"package.module:attribute"``.
        modules: submodules that are imported when asked for as attributes.
    """
    children = frozenset(modules)

    def get(name: str) -> Any:
        if name in names:
            origin, _, attribute = names[name].partition(":")
            value = getattr(_imported(origin, f"{module}.{name}"), attribute)
        elif name in children:
            value = import_module(f"{module}.{name}")
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module])
        setattr(sys.modules[module], name, value)
        return value

    def listing() -> list[str]:
        return sorted({*vars(sys.modules[module]), *names, *children})

    return get, listing


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

        hint = install_hint(package.replace("_", "-"))
        raise ModuleNotFoundError(f"{wanted} comes with {package.replace('_', '-')}: {hint}", name=package) from None
