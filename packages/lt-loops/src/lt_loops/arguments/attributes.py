"""Attributes of a Trainer: those that can be set, slips of their names, and those that only another dialect has."""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

from lt_core.dialect import NOT_MINE, attribute_of
from lt_core.errors import nearest_name, warn
from lt_core.trainer import TrainerAPI
from lt_loops.arguments.table import ARGUMENTS
from lt_loops.former_names import ATTRIBUTES, CLASS_METHODS, understood_by

if TYPE_CHECKING:
    from abc import ABCMeta as ProtocolMeta
else:
    ProtocolMeta = type(TrainerAPI)


class AsksDialects(ProtocolMeta):
    """The class of the Trainer's class: class methods that are not there are asked of the installed dialects.

    The Trainer is a Protocol's by name, and has its class: an ABCMeta, so that a subclass of the Trainer may have an
    abstract class beside it.
    """

    if not TYPE_CHECKING:  # type checkers go on finding what is no attribute

        def __getattr__(cls, name: str) -> Any:  # noqa: N805  (a class of classes)
            return missing(cls, name)


def missing(owner: Any, name: str) -> Any:
    """Return the attribute of a Trainer, or of its class, that a dialect has.

    Raises:
        AttributeError: where none has it; with the way of today for one of Lightning 1.x.
    """
    found = attribute_of(owner, name)
    if found is not NOT_MINE:
        return found
    kind = owner if isinstance(owner, type) else type(owner)
    text = f"{kind.__name__!r} object has no attribute {name!r}"
    if name in CLASS_METHODS:
        text = f"{kind.__name__}.{name} is of Lightning 1.x: write {CLASS_METHODS[name]}. {understood_by()}"
    elif name in ATTRIBUTES:
        text = f"{kind.__name__}.{name} is not there: {ATTRIBUTES[name]}."
    raise AttributeError(text, name=name, obj=owner)


def check_attribute(kind: type, name: str) -> None:
    """Look at the name of an attribute that is set for the first time.

    Raises:
        AttributeError: for one that only the constructor can set.
    """
    known = inspect.getattr_static(kind, name, None)
    if isinstance(known, property) and known.fset is None:
        argument = name in ARGUMENTS
        remedy = f"Give it to the Trainer: Trainer({name}=...)." if argument else "It can only be read."
        raise AttributeError(f"trainer.{name} cannot be set. {remedy}")
    if known is not None or any(name in vars(part) for part in kind.__mro__):
        return
    near = nearest_name(name, _settable(kind), slip=True)
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
