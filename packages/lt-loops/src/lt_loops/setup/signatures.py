"""Fitting the user's steps: how many arguments they take, worked out once before a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lt_core.errors import HookError

__all__ = ["called", "count_arguments", "described", "takes_first", "unfit"]


def count_arguments(function: Callable[..., Any], offered: Sequence[str], required: int = 1) -> int:
    """Return how many of the ``offered`` positional arguments ``function`` takes.

    Required parameters are filled in the documented order whatever their names. An optional one counts only where it
    has a documented name, so that ``training_step(self, batch, scale=2.0)`` keeps its own default.

    Args:
        function: a bound method.
        offered: names of the arguments that the loop has, in order: ``("batch", "batch_idx", "dataloader_idx")``.
        required: the least number that the function must take.

    Raises:
        HookError: when required parameters cannot be filled; shows both signatures.
    """
    try:
        signature = inspect.signature(_unwrapped(function))
    except (TypeError, ValueError):
        return len(offered)
    taken = 0
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            taken = len(offered)
            break
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
                raise unfit(function, _name_of(function), offered)
            continue
        optional = parameter.default is not parameter.empty
        if optional and (taken >= len(offered) or parameter.name not in offered):
            break
        taken += 1
    if taken > len(offered) or taken < required:
        raise unfit(function, _name_of(function), offered)
    return taken


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method inside of one that was hung around it (``register_fsdp_forward_method``): inspect would drop a
    parameter too many.
    """
    inner = getattr(getattr(function, "__func__", None), "__wrapped__", None)
    return inner if inspect.ismethod(inner) else function


def takes_first(function: Callable[..., Any], count: int) -> bool:
    """Return whether ``function`` takes so many positional arguments at least."""
    try:
        inspect.signature(function).bind_partial(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # no signature can be told
        return True
    return True


def described(function: Callable[..., Any]) -> str:
    """Return a function's name and signature as the user wrote it: ``Net.on_train_start(trainer)``."""
    own = function.func if isinstance(function, partial) else function
    return f"{getattr(own, '__qualname__', repr(own))}{inspect.signature(own)}"


def called(function: Callable[..., Any], name: str, offered: Sequence[str]) -> str:
    """Return how lt calls a hook: callbacks get the Trainer and the module first."""
    first = ("trainer", "pl_module") if isinstance(function, partial) else ()
    return f"{name}({', '.join((*first, *offered))})"


def unfit(function: Callable[..., Any], name: str, offered: Sequence[str]) -> HookError:
    """Return the error for a hook whose parameters cannot be filled."""
    return HookError(
        f"{described(function)} does not fit: lt calls {called(function, name, offered)}. Take these parameters, in "
        "this order; later ones may be left out.",
        code="LT211",
    )


def _name_of(function: Callable[..., Any]) -> str:
    own = function.func if isinstance(function, partial) else function
    return str(getattr(own, "__name__", repr(own)))
