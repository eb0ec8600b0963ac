"""How many samples a batch of any nesting holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from lt_core.errors import warn

__all__ = ["batch_size_of"]


def batch_size_of(batch: Any, *, tell: bool = True) -> int:
    """Return the first dimension that the batch's tensors share; 1 where nothing tells it.

    Where tensors disagree the first one is taken, and one warning (LT510) says which, unless ``tell`` is False.
    """
    if isinstance(batch, Tensor):
        return batch.shape[0] if batch.dim() else 1
    common = _shared_size(batch)
    if common is not None:
        return common
    told = getattr(batch, "batch_size", None)
    if isinstance(told, int) and not isinstance(told, bool):
        return told
    sizes = [(where, size) for where, size in _sizes(batch, "batch")]
    if not sizes:
        return len(batch) if isinstance(batch, (list, tuple)) and batch else 1
    where, first = sizes[0]
    if tell and any(size != first for _, size in sizes):
        others = ", ".join(f"{w}: {s}" for w, s in sizes[:5])
        warn(
            f"The batch's tensors have different first dimensions ({others}), so its size is ambiguous; {where} "
            f"({first}) is taken to weight epoch means. Say self.log(..., batch_size=n) to be sure.",
            code="LT510",
        )
    return first


def _shared_size(batch: Any) -> int | None:
    """Return the first dimension that a plain list, tuple or dict of tensors shares: nearly all batches are such."""
    kind, size = batch.__class__, None
    if kind is not list and kind is not tuple and kind is not dict:
        return None
    for item in batch.values() if kind is dict else batch:
        if item.__class__ is not Tensor or not item.ndim:
            return None
        if size is None:
            size = item.shape[0]
        elif item.shape[0] != size:
            return None
    return size


def _sizes(item: Any, where: str) -> Iterator[tuple[str, int]]:
    if isinstance(item, Tensor):
        if item.dim():
            yield where, item.shape[0]
    elif isinstance(item, Mapping):
        for key, value in item.items():
            yield from _sizes(value, f"{where}[{key!r}]")
    elif isinstance(item, (list, tuple)):
        for index, value in enumerate(item):
            yield from _sizes(value, f"{where}[{index}]")
    elif dataclasses.is_dataclass(item) and not isinstance(item, type):
        for field in dataclasses.fields(item):
            yield from _sizes(getattr(item, field.name, None), f"{where}.{field.name}")
