"""Reductions of the values of an epoch to one."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lt_core.errors import LogError


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


def joined(reduce: str, totals: list[Any]) -> Any:
    """Return one total of several."""
    return math.nan if any(total != total for total in totals) else REDUCTIONS[reduce].join(totals)


def merge(reduce: str, parts: Sequence[Mapping[str, Any]]) -> tuple[Any, float]:
    """Return total and count of several slots under one name: of ranks, or of runs."""
    return joined(reduce, [part["total"] for part in parts]), sum(part["count"] for part in parts)


def reduction_of(reduce_fx: Any, name: str) -> str:
    """Return the name of a reduction for the argument ``reduce_fx`` of ``self.log(name, ...)``."""
    if isinstance(reduce_fx, str):
        word = {"avg": "mean"}.get(reduce_fx.lower(), reduce_fx.lower())
        if word in REDUCTIONS:
            return word
    for word, reduction in REDUCTIONS.items():
        if any(reduce_fx is function for function in reduction.functions):
            return word
    raise LogError(
        f"self.log({name!r}, reduce_fx={reduce_fx!r}): expected 'mean', 'sum', 'min' or 'max'. For another reduction "
        "log a metric object, or collect the values in the module and log the result at the epoch's end.",
        code="LT508",
    )
