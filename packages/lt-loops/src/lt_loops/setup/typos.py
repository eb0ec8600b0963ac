"""Near misses of names that lt calls or reads: hooks, attributes of modules and of a Trainer."""

from __future__ import annotations

import inspect
from functools import cache

from torch import nn

from lt_core.callback import Callback
from lt_core.data import DataSource
from lt_core.dialect import spoken
from lt_core.errors import nearest_name, warn
from lt_core.hooks import CALLBACK_HOOKS, MODULE_HOOKS
from lt_core.module import LightningModule
from lt_loops.arguments.table import ARGUMENTS


def warn_of_typos(module: LightningModule, datamodule: DataSource | None, callbacks: list[Callback]) -> None:
    """Warn of near misses of hooks, and of attributes that lt reads, in the user's objects."""
    _warn_of_hooks(module, LightningModule, MODULE_HOOKS | spoken())
    for owner in filter(None, (module, datamodule)):
        _warn_of_settings(owner)
    for callback in callbacks:
        _warn_of_hooks(callback, Callback, CALLBACK_HOOKS | spoken())


_SETTINGS = (
    *("automatic_optimization", "example_input_array", "prepare_data_per_node"),
    *("strict_loading", "trains_without_loss"),
)
"""What lt reads of a module and a datamodule, beside their methods."""


def _warn_of_hooks(owner: object, base: type, known: frozenset[str]) -> None:
    """Warn of public methods of a module's or callback's class that are nearly a hook of ``base``: one
    letter off, a plural, an old order of words.
    """
    kinds = [k for k in type(owner).__mro__ if k not in base.__mro__ and not k.__module__.startswith(("torch.", "lt_"))]
    for name in dict.fromkeys(name for kind in kinds for name, value in vars(kind).items() if callable(value)):
        like_a_hook = name.startswith(_HEADS) or name.endswith(_TAILS)
        if name in known or name.startswith("_") or hasattr(base, name) or not like_a_hook:
            continue
        near = nearest_name(name, known, slip=True)
        if near is not None:
            warn(
                f"{type(owner).__name__}.{name} is not a hook and is never called. Did you mean {near!r}? "
                "If it is a method of your own, another name avoids this note.",
                code="LT201",
                about=getattr(type(owner), name),
            )


_HEADS = ("on_", "configure_", "optimizer_", "lr_", "transfer_", "prepare_")
_TAILS = ("_step", "_steps", "_dataloader", "_dataloaders", "_data", "_start", "_end", "_hook")


def _warn_of_settings(owner: object) -> None:
    """Warn of attributes of a module or datamodule that are nearly, but not quite, one that lt reads."""
    kinds = (kind for kind in type(owner).__mro__ if kind.__module__.partition(".")[0] not in _NOT_THE_USERS)
    names = {name for part in (owner, *kinds) for name in vars(part)}
    for name in sorted(names.difference(_SETTINGS, _TORCHS)):
        near = nearest_name(name, _SETTINGS, slip=True)
        if near is not None:
            warn(
                f"{type(owner).__name__}.{name} is set, and nothing reads it. Did you mean {near!r}? If it is an "
                "attribute of your own, another name avoids this note.",
                code="LT184",
            )


_TORCHS = frozenset(vars(nn.Module()))
"""What torch sets on each module."""

_NOT_THE_USERS = ("builtins", "torch", "lt_core", "lt_data")


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
