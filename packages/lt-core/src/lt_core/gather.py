"""Gathering nests of tensors from all ranks, with gradients where asked."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lt_core.strategy import Strategy
from lt_core.transfer import map_batch

__all__ = ["gather_nested"]


def gather_nested(data: Any, strategy: Strategy, *, sync_grads: bool = False) -> Any:
    """Return ``data`` with each tensor replaced by those of all ranks, shape ``(world_size, *shape)``.

    Args:
        data: a tensor, number, or a nest of them; the shapes must be the same on all ranks.
        strategy: whose ranks take part.
        sync_grads: let gradients flow back, summed over ranks, to the rank that gave the tensor.
    """

    def gather(tensor: Tensor) -> Tensor:
        if sync_grads and tensor.requires_grad:
            gathered: Tensor = _Gather.apply(tensor, strategy)  # type: ignore[no-untyped-call]
            return gathered
        return strategy.all_gather(tensor.detach())

    if isinstance(data, (int, float)) and not isinstance(data, bool):
        return strategy.all_gather(torch.tensor(data, device=strategy.device))
    return map_batch(gather, data)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, strategy: Strategy) -> Tensor:
        ctx.strategy = strategy
        return strategy.all_gather(tensor.contiguous())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        summed = ctx.strategy.all_reduce(gradient.contiguous(), "sum")
        return summed[ctx.strategy.rank], None
