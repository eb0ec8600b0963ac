"""Clipping gradients that are spread over ranks, perhaps over different meshes."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from lt_parallel.kinds import by_kind
from lt_strategies.distributed import own_part


def clip_norm(params: Iterable[nn.Parameter], largest: float) -> Tensor:
    """Scale gradients in place so that their norm is at most ``largest``; return the norm before, shape ``()``."""
    gradients = [param.grad for param in params if param.grad is not None]
    total = norm_of(gradients)
    scale_to(gradients, largest, total)
    return total


def norm_of(gradients: Iterable[Tensor]) -> Tensor:
    """Return the norm of gradients, wherever their parts are, shape ``()``; called on all ranks that hold one."""
    norms = map(nn.utils.get_total_norm, by_kind(gradients))
    whole = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
    if not whole:
        return torch.zeros(())
    total: Tensor = torch.linalg.vector_norm(torch.stack([norm.to(whole[0].device) for norm in whole]))
    return total


def scale_to(gradients: Iterable[Tensor], largest: float, total: Tensor) -> None:
    """Scale gradients whose norm is ``total`` in place, so that it is at most ``largest``."""
    factor = torch.clamp(largest / (total + 1e-6), max=1.0)  # as torch.nn.utils.clip_grad_norm_
    for gradient in gradients:
        own_part(gradient).mul_(factor.to(gradient.device))


def clip_value(params: Iterable[nn.Parameter], largest: float) -> None:
    """Bring each number of the gradients into ``[-largest, largest]``, in place."""
    for param in params:
        if param.grad is not None:
            own_part(param.grad).clamp_(-largest, largest)
