"""Moving batches of any nesting to a device."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["map_batch", "move_to_device", "rebuild_mapping"]

_LEAVES = (str, bytes, int, float, bool, complex, type(None))


def move_to_device(batch: Any, device: torch.device | str) -> Any:
    """Return ``batch`` with everything that has a ``.to`` on ``device``.

    Containers (dict, list, tuple, namedtuple, dataclass) keep their types; tensors that are there already stay the same
    objects. Copies from pinned memory do not block.
    """
    target = torch.device(device)

    def move(item: Any) -> Any:
        if isinstance(item, Tensor):
            return item.to(target, non_blocking=target.type != "mps")
        return item.to(target)

    return map_batch(move, batch)


def map_batch(function: Callable[[Any], Any], batch: Any) -> Any:
    """Return ``batch`` with ``function`` applied to each tensor and each other object that has a ``.to``."""
    if isinstance(batch, Tensor):
        return function(batch)
    if isinstance(batch, _LEAVES):
        return batch
    if callable(getattr(batch, "to", None)) and not isinstance(batch, type):
        return function(batch)
    if isinstance(batch, tuple):
        items = [map_batch(function, item) for item in batch]
        return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)
    if isinstance(batch, list):
        return type(batch)(map_batch(function, item) for item in batch)
    if isinstance(batch, Mapping):
        return rebuild_mapping(batch, {key: map_batch(function, value) for key, value in batch.items()})
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        return _rebuild_dataclass(function, batch)
    return batch


def rebuild_mapping(original: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Return ``items`` as a mapping of the type of ``original``."""
    if type(original) is dict:
        return items
    if hasattr(original, "default_factory"):
        return type(original)(original.default_factory, items)  # type: ignore[call-arg]
    return type(original)(items)  # type: ignore[call-arg]


def _rebuild_dataclass(function: Callable[[Any], Any], batch: Any) -> Any:
    import copy

    moved = copy.copy(batch)
    for field in dataclasses.fields(batch):
        if hasattr(batch, field.name):
            object.__setattr__(moved, field.name, map_batch(function, getattr(batch, field.name)))
    return moved
