"""States of sharded modules: gathered on one rank, and spread over the ranks again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.optim import Optimizer

from lt_core.checkpoint import Stored
from lt_core.errors import ConfigError
from lt_core.loading.from_checkpoint import as_compiled
from lt_core.strategy import Strategy


def check_gathers(module: nn.Module) -> None:
    """Refuse parameters of which this torch would give back other numbers than it was given.

    Raises:
        ConfigError: before torch 2.10, for a side that is spread over two dimensions of the mesh, in unequal parts.
    """
    if torch.__version__ >= "2.10":
        return
    for name, param in module.named_parameters():
        if not isinstance(param, DTensor):
            continue
        sides = [place.dim for place in param.placements if isinstance(place, Shard)]
        for side in {side for side in sides if sides.count(side) > 1}:
            parts = prod(
                n for n, place in zip(param.device_mesh.shape, param.placements, strict=True) if place.is_shard(side)
            )
            if param.shape[side] % parts:
                raise ConfigError(
                    f"{name} has {param.shape[side]} rows over {parts} ranks by two dimensions of the mesh, and torch "
                    f"{torch.__version__} gathers them wrongly where they do not divide. Take torch 2.10 or newer, or "
                    "sizes that divide.",
                    code="LT756",
                )


def whole(state: Any, *, keep: bool) -> Any:
    """Return ``state`` with every sharded tensor gathered, on the CPU; called on every rank.

    Args:
        state: any nesting of dicts.
        keep: whether this rank wants the result; the others get an empty dict.
    """
    found: dict[Any, Any] = {}
    for name, value in state.items():
        entry: Any = value
        if isinstance(value, dict):
            entry = whole(value, keep=keep)
        elif isinstance(value, DTensor):
            gathered = value.full_tensor()
            entry = gathered.cpu() if keep else None
        elif isinstance(value, Tensor):
            entry = value.detach().cpu()
        if keep:
            found[name] = entry
    return found


def load_module(
    module: nn.Module, state: dict[str, Any], strategy: Strategy, *, strict: bool, elsewhere: Collection[str] = ()
) -> Any:
    """Load a full state (needed on rank 0 only), this rank's shards, or a state still on disk.

    ``elsewhere`` names the tensors of other ranks' layers.
    """
    own = module.state_dict()
    if isinstance(state, Stored):
        return module.load_state_dict(as_compiled(state.read(dict(as_compiled(own, state))), own), strict=strict)
    kinds = strategy.gather_objects("none" if not state else "any")
    if "none" in kinds:
        state = strategy.broadcast(state if strategy.rank == 0 else None, 0)
    here = as_compiled({name: value for name, value in state.items() if name not in elsewhere}, own)
    ready = {name: _like(value, own[name]) if name in own else value for name, value in here.items()}
    return module.load_state_dict(ready, strict=strict)


def load_optimizer(optimizer: Optimizer, state: dict[str, Any], numbers: Sequence[int] | None = None) -> None:
    """Load the state of an optimizer over sharded parameters, from whole tensors or from disk.

    ``numbers`` are its parameters' numbers in ``state``, where other ranks hold more of them.
    """
    params = [param for group in optimizer.param_groups for param in group["params"]]
    here = dict(zip(range(len(params)) if numbers is None else numbers, enumerate(params), strict=True))
    entries = state["state"]
    if isinstance(entries, Stored):
        entries = entries.read({str(number): param for number, (_, param) in here.items()})
    placed = {
        here[int(number)][0]: {name: _like(value, here[int(number)][1]) for name, value in entry.items()}
        for number, entry in entries.items()
        if int(number) in here
    }
    optimizer.load_state_dict({"state": placed, "param_groups": state["param_groups"]})


def _like(value: Any, model: Tensor) -> Any:
    """Return a whole tensor sharded as ``model`` is, where it has its shape; all else as it is."""
    fits = isinstance(value, Tensor) and not isinstance(value, DTensor) and isinstance(model, DTensor)
    if not fits or value.shape != model.shape:
        return value
    assert isinstance(model, DTensor)
    return distribute_tensor(value.to(model.device), model.device_mesh, model.placements)
