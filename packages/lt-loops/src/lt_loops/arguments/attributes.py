"""Attributes that a user sets on a Trainer: those that can be set, and slips of their names."""

from __future__ import annotations

from functools import cache

from lt_core.errors import warn
from lt_core.overrides import nearest_name
from lt_loops.arguments.table import ARGUMENTS

__all__ = ["check_attribute"]


def check_attribute(kind: type, name: str) -> None:
    """Look at the name of an attribute that is set for the first time.

    Raises:
        AttributeError: for one that only the constructor can set.
    """
    known = getattr(kind, name, None)
    if isinstance(known, property) and known.fset is None:
        argument = name in ARGUMENTS
        remedy = f"Give it to the Trainer: Trainer({name}=...)." if argument else "It can only be read."
        raise AttributeError(f"trainer.{name} cannot be set. {remedy}")
    if known is not None or hasattr(kind, name):
        return
    near = nearest_name(name, _settable(kind))
    if near is not None:
        warn(
            f"trainer.{name} is set, and nothing reads it. Did you mean {near!r}? If it is an attribute of your own, "
            "another name avoids this note.",
            code="LT183",
        )
    elif name in ARGUMENTS:
        warn(
            f"trainer.{name} is set after the Trainer was made, and nothing reads it. Write Trainer({name}=...).",
            code="LT183",
        )


@cache
def _settable(kind: type) -> tuple[str, ...]:
    """Return the public attributes of a Trainer's class that can be set."""
    public = ((name, getattr(kind, name)) for name in dir(kind) if not name.startswith("_"))
    return tuple(name for name, member in public if hasattr(member, "__set__") and getattr(member, "fset", member))
