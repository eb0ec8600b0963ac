"""Batches on a CUDA device one ahead of the step: copied on a side stream while the step before computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from lt_core.batch import map_batch
from lt_core.strategy import Strategy

__all__ = ["look_ahead", "plain_cuda_device"]


def plain_cuda_device(transfer: Callable[[Any], Any] | None) -> torch.device | None:
    """Return the CUDA device that ``transfer`` moves to and does nothing else; None where user code takes part."""
    if getattr(transfer, "__func__", None) is not Strategy.to_device:
        return None
    device: torch.device = transfer.__self__.device  # type: ignore[union-attr]
    return device if device.type == "cuda" else None


def look_ahead(
    items: Iterator[Any],
    device: torch.device,
    *,
    ahead: bool,
    parcels: bool,
    dropped: Callable[[Any], Any] | None,
) -> Iterator[Any]:
    """Yield ``items`` on ``device``; their copies run on a stream of their own, and block nothing from pinned memory.

    Args:
        items: batches, or parcels that hold them.
        device: a CUDA device.
        ahead: whether an item is fetched before the step on the one before it is taken; only where fetching runs no
            code of the user's in this process.
        parcels: whether only the first element of each item is to be moved.
        dropped: called with the item that was fetched and not asked for any more, when the epoch is left early.
    """
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    end = object()

    def each(function: Callable[[Any], Any], item: Any) -> Any:
        return [map_batch(function, item[0]), *item[1:]] if parcels else map_batch(function, item)

    def fetch() -> Any:
        item = next(items, end)
        return item if item is end else each(move, item)

    def move(part: Any) -> Any:
        if not isinstance(part, Tensor):  # what it allocates is not known to the allocator of another stream
            return part.to(device)
        with torch.cuda.stream(side):
            return part.to(device, non_blocking=True)

    def take_over(part: Any) -> Any:
        if isinstance(part, Tensor) and part.device == device:
            part.record_stream(torch.cuda.current_stream(device))
        return part

    upcoming = fetch()
    try:
        while upcoming is not end:
            torch.cuda.current_stream(device).wait_stream(side)
            item, upcoming = each(take_over, upcoming), end
            if ahead:
                upcoming = fetch()
            yield item
            if not ahead:
                upcoming = fetch()
    finally:
        if upcoming is not end and dropped is not None:
            dropped(upcoming)
