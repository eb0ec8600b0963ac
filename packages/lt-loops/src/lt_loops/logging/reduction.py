"""Reductions of the values of an epoch to one: by name, or by a function of the user's."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from lt_core.errors import LogError

CALLABLE = "<callable>"
"""In files, in place of a reduction of the user's."""


class Reduction(NamedTuple):
    """How the values of an epoch become one.

    Attributes:
        zero: the total of no values.
        add: gives the next total, of a total and a number.
        over: gives the total of a tensor of shape ``(n,)``.
        join: gives one total of several, which are numbers.
        functions: alternatives to its name as ``reduce_fx``.
    """

    zero: float
    add: Callable[[Any, Any], Any]
    over: Callable[[Tensor], Tensor]
    join: Callable[[Sequence[Any]], Any]
    functions: tuple[Callable[..., Any], ...]


def _least(total: Any, number: Any) -> Any:
    return number if number != number or number < total else total


def _greatest(total: Any, number: Any) -> Any:
    return number if number != number or number > total else total


REDUCTIONS = {
    "mean": Reduction(0, operator.add, torch.sum, sum, (torch.mean,)),  # its total: values times their weights
    "sum": Reduction(0, operator.add, torch.sum, sum, (torch.sum, sum)),
    "min": Reduction(math.inf, _least, torch.amin, min, (torch.min, torch.amin, min)),
    "max": Reduction(-math.inf, _greatest, torch.amax, max, (torch.max, torch.amax, max)),
}


def joined(reduce: Any, totals: list[Any]) -> Any:
    """Return one total of several; 0 for a function of the user's, which reduces the values themselves."""
    if callable(reduce) or reduce == CALLABLE:
        return 0
    return math.nan if any(total != total for total in totals) else REDUCTIONS[reduce].join(totals)


def merge(reduce: Any, parts: Sequence[Mapping[str, Any]]) -> tuple[Any, float, list[Any]]:
    """Return total, count and values of several slots under one name: of ranks, or of runs."""
    values = [value for part in parts for value in part["values"]]
    return joined(reduce, [part["total"] for part in parts]), sum(part["count"] for part in parts), values


def reduction_of(reduce_fx: Any, name: str) -> str | Callable[[Tensor], Tensor]:
    """Return the name of a reduction, or the function of the user's, for the argument ``reduce_fx``."""
    if isinstance(reduce_fx, str):
        word = {"avg": "mean"}.get(reduce_fx.lower(), reduce_fx.lower())
        if word in REDUCTIONS:
            return word
    elif callable(reduce_fx):
        known = (word for word, reduction in REDUCTIONS.items() if any(reduce_fx is f for f in reduction.functions))
        return next(known, reduce_fx)
    raise LogError(
        f"self.log({name!r}, reduce_fx={reduce_fx!r}): expected 'mean', 'sum', 'min', 'max', or a function from a "
        "tensor of shape (n,) to a 0-dim tensor.",
        code="LT508",
    )


def is_same_function(one: Any, other: Any) -> bool:
    """Return whether two functions are one that is made anew for each call: a lambda, a partial (with any tensors)."""
    if isinstance(one, partial) and isinstance(other, partial):
        plain = partial(tree_map, lambda value: None if hasattr(value, "dtype") else value)
        mine, theirs = plain((one.args, one.keywords)), plain((other.args, other.keywords))
        return is_same_function(one.func, other.func) and bool(mine == theirs)
    name = getattr(one, "__qualname__", None)
    return one is other or (name is not None and name == getattr(other, "__qualname__", None))
