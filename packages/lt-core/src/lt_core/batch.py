"""Batches of any nesting: moved to a device, changed tensor by tensor, counted."""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from lt_core.errors import warn

__all__ = ["batch_size_of", "is_out_of_memory", "map_batch", "move_to_device", "rebuild_mapping"]

_LEAVES = (str, bytes, int, float, bool, complex, type(None))


def move_to_device(batch: Any, device: torch.device | str) -> Any:
    """Return ``batch`` with everything that has a ``.to`` on ``device``.

    Containers (dict, list, tuple, namedtuple, dataclass) keep their types; tensors that are there already stay the same
    objects. Copies from pinned memory to a device do not block; a copy from one is complete when this returns.
    """
    target = torch.device(device)
    late = target.type not in ("cpu", "mps")

    def move(item: Any) -> Any:
        return item.to(target, non_blocking=late) if isinstance(item, Tensor) else item.to(target)

    return map_batch(move, batch)


def _can_move(item: Any) -> bool:
    return callable(getattr(item, "to", None)) and not isinstance(item, type)


def map_batch(function: Callable[[Any], Any], batch: Any, applies: Callable[[Any], bool] = _can_move) -> Any:
    """Return ``batch`` with ``function`` applied to each tensor, and to objects that ``applies`` accepts."""
    if isinstance(batch, Tensor) or applies(batch):
        return function(batch)
    if isinstance(batch, _LEAVES):
        return batch
    if isinstance(batch, tuple):
        items = [map_batch(function, item, applies) for item in batch]
        return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)
    if isinstance(batch, list):
        return type(batch)(map_batch(function, item, applies) for item in batch)
    if isinstance(batch, Mapping):
        return rebuild_mapping(batch, {key: map_batch(function, value, applies) for key, value in batch.items()})
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        moved = copy.copy(batch)
        for field in dataclasses.fields(batch):
            if hasattr(batch, field.name):
                # frozen dataclasses refuse setattr; dataclasses.replace would call their __init__ and __post_init__
                object.__setattr__(moved, field.name, map_batch(function, getattr(batch, field.name), applies))
        return moved
    return batch


def rebuild_mapping(original: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Return ``items`` as a mapping of the type of ``original``."""
    if type(original) is dict:
        return items
    if hasattr(original, "default_factory"):
        return type(original)(original.default_factory, items)  # type: ignore[call-arg]
    return type(original)(items)  # type: ignore[call-arg]


def batch_size_of(batch: Any, *, sampled_size: Callable[[], int | None] = lambda: None, warns: bool = True) -> int:
    """Return how many samples a batch holds: the first dimension that its tensors share; 1 where nothing says it.

    Where tensors disagree, or there are none, ``sampled_size`` is asked. Where it returns None, the first tensor
    counts, and one warning (LT510) says which, unless ``warns`` is False.
    """
    if (common := _shared_size(batch)) is not None:
        return common
    if isinstance(batch, Tensor):
        return batch.shape[0] if batch.dim() else 1
    given = getattr(batch, "batch_size", None)
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    sizes = list(_sizes(batch, "batch"))
    if len({size for _, size in sizes}) != 1 and (told := sampled_size()) is not None:
        return told
    if not sizes:
        return len(batch) if isinstance(batch, (list, tuple)) and batch else 1
    where, first = sizes[0]
    if warns and any(size != first for _, size in sizes):
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
        if item.__class__ is not Tensor or not (shape := item.shape):
            return None
        if size is None:
            size = shape[0]
        elif shape[0] != size:
            return None
    return size


def _sizes(item: Any, where: str) -> Iterator[tuple[str, int]]:
    parts: dict[str, Any] = {}
    if isinstance(item, Tensor):
        if item.dim():
            yield where, item.shape[0]
    elif isinstance(item, Mapping):
        parts = {f"[{key!r}]": value for key, value in item.items()}
    elif isinstance(item, (list, tuple)):
        parts = {f"[{index}]": value for index, value in enumerate(item)}
    elif dataclasses.is_dataclass(item) and not isinstance(item, type):
        parts = {f".{field.name}": getattr(item, field.name, None) for field in dataclasses.fields(item)}
    for way, part in parts.items():
        yield from _sizes(part, where + way)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error says that no memory is left: a smaller batch may fit then."""
    words = "out of memory", "can't allocate memory", "not enough memory", "_ALLOC_FAILED", "CUDNN_STATUS_NOT_SUPPORTED"
    return isinstance(error, torch.OutOfMemoryError) or any(word in str(error) for word in words)
