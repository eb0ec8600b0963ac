"""Optimizers whose parameters are of several kinds: spread over one mesh, spread over another, whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

_STEPS_BY_KIND: WeakSet[Optimizer] = WeakSet()


def by_kind(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """Return the parameters, or gradients, of each kind."""
    found: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        found.setdefault(tensor.device_mesh if isinstance(tensor, DTensor) else None, []).append(tensor)
    return list(found.values())


def step_by_kind(optimizer: Optimizer) -> None:
    """Let each step of ``optimizer`` see the kinds of a group as groups of their own; before and after it sees its own.

    With ``foreach`` (torch's default on a GPU) and ``fused`` torch computes with all parameters of a group at a time,
    and refuses parameters of several kinds.
    """
    if optimizer in _STEPS_BY_KIND or all(len(by_kind(group["params"])) < 2 for group in optimizer.param_groups):
        return
    own: list[list[dict[str, Any]]] = []

    def split(optimizer: Optimizer, *_: Any) -> None:
        if own:  # the last step ended with an error
            optimizer.param_groups = own.pop()
        own.append(optimizer.param_groups)
        optimizer.param_groups = [{**group, "params": kind} for group in own[0] for kind in by_kind(group["params"])]

    def join(optimizer: Optimizer, *_: Any) -> None:
        optimizer.param_groups = own.pop()

    optimizer.register_step_pre_hook(split)
    optimizer.register_step_post_hook(join)
    _STEPS_BY_KIND.add(optimizer)
