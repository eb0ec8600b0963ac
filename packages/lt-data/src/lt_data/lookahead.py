"""Batches on the device one ahead of the step: copied while the step before computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from lt_core.accelerator import Copies
from lt_core.batch import map_batch
from lt_core.strategy import Strategy


def copies_of(transfer: Callable[[Any], Any] | None) -> Copies | None:
    """Return the copier for the device of ``transfer``; None if ``transfer`` does more than move."""
    if getattr(transfer, "__func__", None) is not Strategy.to_device:
        return None
    strategy: Strategy = transfer.__self__  # type: ignore[union-attr]
    make: Callable[..., Copies] | None = getattr(strategy.placement.accelerator, "copies", None)
    return None if make is None else make(strategy.device)


def look_ahead(
    items: Iterator[Any],
    copies: Copies,
    move: Callable[[Any], Any],
    *,
    ahead: bool,
    parcels: bool,
    dropped: Callable[[Any], Any] | None,
) -> Iterator[Any]:
    """Yield ``items`` on the device.

    Args:
        items: batches, or parcels that hold them.
        copies: moves tensors, beside the step.
        move: moves values that are no tensors; ``copies`` does not know its allocations.
        ahead: whether an item is fetched before the step on the one before it is taken; only where fetching runs no
            code of the user's in this process.
        parcels: whether only the first element of each item is to be moved.
        dropped: called with the item that was fetched and not asked for any more, when the epoch is left early.
    """
    end = object()

    def each(function: Callable[[Any], Any], item: Any) -> Any:
        return [map_batch(function, item[0]), *item[1:]] if parcels else map_batch(function, item)

    def fetch() -> Any:
        item = next(items, end)
        return item if item is end else each(begin, item)

    def begin(part: Any) -> Any:
        return copies.begin(part) if isinstance(part, Tensor) else move(part)

    def hand_over(part: Any) -> Any:
        if isinstance(part, Tensor):
            copies.hand_over(part)
        return part

    upcoming = fetch()
    try:
        while upcoming is not end:
            copies.wait()
            item, upcoming = each(hand_over, upcoming), end
            if ahead:
                upcoming = fetch()
            yield item
            if not ahead:
                upcoming = fetch()
    finally:
        if upcoming is not end and dropped is not None:
            dropped(upcoming)
