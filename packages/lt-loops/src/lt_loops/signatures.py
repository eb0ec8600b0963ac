"""Fitting the user's steps: how many arguments they take, worked out once before a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from lt_core.errors import HookError

__all__ = ["count_arguments"]


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
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return len(offered)
    taken = 0
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            taken = len(offered)
            break
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
                raise _unfit(function, signature, offered)
            continue
        optional = parameter.default is not parameter.empty
        if optional and (taken >= len(offered) or parameter.name not in offered):
            break
        taken += 1
    if taken > len(offered) or taken < required:
        raise _unfit(function, signature, offered)
    return taken


def _unfit(function: Callable[..., Any], signature: inspect.Signature, offered: Sequence[str]) -> HookError:
    name = getattr(function, "__qualname__", repr(function))
    short = name.rpartition(".")[2]
    return HookError(
        f"{name}{signature} does not fit: lt calls {short}({', '.join(offered)}). Take these parameters, in this "
        "order; the later ones may be left away.",
        code="LT211",
    )
