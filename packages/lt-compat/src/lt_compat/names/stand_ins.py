"""Names of Lightning 2.6 without a counterpart: they can be imported and used in ``isinstance``, and say what to
use instead when one is instantiated or called. So a package of which one part needs DeepSpeed works without that part.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["is_public", "is_stand_in", "modules", "stand_in"]

_PRIVATE = ("NeptuneLogger", "_CheckpointConnector", "_ResultMetric")
"""Further names that several packages import, for annotations and checks of classes."""


class _StandIn:
    """Its subclasses cannot be instantiated."""

    advice = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Accept users' subclasses; making an object of one raises."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from lt_core.errors import ConfigError  # with torch, which names alone do not need

        name = type(self).__name__
        raise ConfigError(f"lt has no {name}{f': {self.advice}' if self.advice else ''}.", code="LT916")


@cache
def stand_in(name: str, advice: str = "") -> type:
    """Return a class of this name that cannot be made; calling it raises a ConfigError with ``advice``."""
    return type(name, (_StandIn,), {"advice": advice, "__module__": __name__})


def is_stand_in(value: Any) -> bool:
    """Return whether a name's answer is only a stand-in."""
    return isinstance(value, type) and issubclass(value, _StandIn)


def is_public(path: str, name: str) -> bool:
    """Return whether a module of Lightning 2.6 has this name; ``path`` is its path below the root."""
    return name in modules().get(path, ()) or name in _PRIVATE


@cache
def modules() -> Mapping[str, frozenset[str]]:
    """Return the names of each module of Lightning 2.6, by its path below the root; tools/lightning_names.py wrote
    the list.
    """
    found: dict[str, frozenset[str]] = {}
    for line in Path(__file__).with_name("lightning_2_6.txt").read_text("utf-8").splitlines():
        module, _, names = line.partition(":")
        below = module.removeprefix("lightning").removeprefix(".")
        for root in ("pytorch", "fabric"):
            below = "" if below == root else below.removeprefix(f"{root}.")
        found[below] = found.get(below, frozenset()) | frozenset(names.split())
    return found
