"""Gathering nests of tensors from all ranks, with gradients where asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lt_core.strategy import Strategy
from lt_core.transfer import map_batch, rebuild_mapping

__all__ = ["gather_nested", "with_tensors"]


def gather_nested(data: Any, strategy: Strategy, *, sync_grads: bool = False) -> Any:
    """Return ``data`` with each tensor replaced by those of all ranks, shape ``(world_size, *shape)``.

    Args:
        data: a tensor, number, array, or a nest of them; the shapes must be the same on all ranks.
        strategy: whose ranks take part.
        sync_grads: let gradients flow back, summed over ranks, to the rank that gave the tensor.
    """

    def gather(tensor: Tensor) -> Tensor:
        if sync_grads and tensor.requires_grad:
            gathered: Tensor = _Gather.apply(tensor, strategy)  # type: ignore[no-untyped-call]
            return gathered
        return strategy.all_gather(tensor.detach())

    return map_batch(gather, with_tensors(data, strategy.device))


def with_tensors(data: Any, device: torch.device | str) -> Any:
    """Return ``data`` with its numbers and arrays as tensors on ``device``."""
    if isinstance(data, bool):
        return torch.tensor(data, dtype=torch.uint8, device=device)
    if isinstance(data, (int, float)) or (hasattr(data, "__array__") and not isinstance(data, Tensor)):
        return torch.as_tensor(data, device=device)
    if isinstance(data, list | tuple):
        items = [with_tensors(item, device) for item in data]
        return type(data)(*items) if hasattr(data, "_fields") else type(data)(items)
    if isinstance(data, Mapping):
        return rebuild_mapping(data, {key: with_tensors(value, device) for key, value in data.items()})
    return data


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, strategy: Strategy) -> Tensor:
        ctx.strategy = strategy
        return strategy.all_gather(tensor.contiguous())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        summed = ctx.strategy.all_reduce(gradient.contiguous(), "sum")
        return summed[ctx.strategy.rank], None
