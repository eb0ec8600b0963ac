"""What a rank holds of a model and its optimizers: counted beforehand, and where there was no more."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.strategy import Strategy
from lt_loops.setup.optimizers import parse_optimizers

__all__ = ["memory", "out_of_memory"]


def memory(module: LightningModule, precision: Precision, strategy: Strategy) -> str:
    """Return what parameters, gradients and optimizers take on a rank, as text.

    The module is copied to torch's meta device, ``configure_model`` called there, and the optimizers take a step of
    nothing, so that what they keep is counted and not guessed.

    Args:
        module: the user's; left as it is.
        precision: of the run.
        strategy: as it would stand on a rank.
    """
    try:
        model = _copied(module)
        precision.convert_module(model)
    except Exception as error:  # a module that cannot be copied, or needs a run to make its layers
        return f"Memory: not counted, the module cannot be made without memory: {error}"
    trained = [param for param in model.parameters() if param.requires_grad]
    for param in trained:
        param.grad = torch.zeros_like(param)
    parts, count = _parts(strategy), sum(param.numel() for param in model.parameters())
    sizes = {"parameters": _bytes(model.parameters()), "gradients": _bytes(trained)}
    try:
        sizes["optimizers"] = _bytes(_states(model))
        unknown = ""
    except Exception as error:  # whatever a user's configure_optimizers asks of a run
        unknown = f"; optimizers are not counted, configure_optimizers needs a run: {error}"
    each = ", ".join(f"{name} {size / parts / 1e9:.3f}" for name, size in sizes.items())
    spread = f"spread over {parts} ranks" if parts > 1 else "whole on each rank"
    return (
        f"Memory (GB on each rank, without activations): {count:,} parameters, {spread}\n"
        f"  {each}: {sum(sizes.values()) / parts / 1e9:.3f} together{unknown}"
    )


def out_of_memory(module: nn.Module, optimizers: Iterable[Optimizer], device: torch.device) -> str:
    """Return what holds the memory of a device that has no more, and what helps, as text."""
    params = list(module.parameters())
    sizes = {
        "parameters and buffers": _bytes((*params, *module.buffers())),
        "gradients": _bytes(param.grad for param in params if param.grad is not None),
        "optimizers": _bytes(kept for optimizer in optimizers for kept in _kept(optimizer)),
    }
    each = ", ".join(f"{name} {size / 1e9:.3f}" for name, size in sizes.items())
    text = f"of this rank's memory these hold (GB): {each}"
    if device.type in ("cuda", "xpu"):
        used, reserved = torch.accelerator.max_memory_allocated(device), torch.accelerator.memory_reserved(device)
        text += f", of {used / 1e9:.3f} at the fullest; the rest is activations, batches, and what your code keeps"
        if reserved > 1.2 * used:
            text += f". {(reserved - used) / 1e9:.3f} lie between: PYTORCH_ALLOC_CONF=expandable_segments:True"
    return (
        f"{text}. Trainer(accumulate_grad_batches='auto'), precision='bf16-mixed' and activation checkpointing "
        "leave less to activations; strategy='fsdp' spreads the rest over the ranks. [LT354]"
    )


def _copied(module: LightningModule) -> LightningModule:
    """Return a copy of the module with all layers, on the meta device."""
    memo: dict[int, Any] = {id(tensor): _on_meta(tensor) for tensor in (*module.parameters(), *module.buffers())}
    model = copy.deepcopy(module, memo)
    with torch.device("meta"):
        model.configure_model()
    return model


def _states(model: LightningModule) -> Iterator[Tensor]:
    """Yield what the optimizers keep after a step."""
    for optimizer in parse_optimizers(model.configure_optimizers(), model).optimizers:
        optimizer.step()
        yield from _kept(optimizer)


def _kept(optimizer: Optimizer) -> Iterator[Tensor]:
    for entry in optimizer.state.values():
        yield from (value for value in entry.values() if isinstance(value, Tensor))


def _parts(strategy: Strategy) -> int:
    """Return over how many ranks a parameter is spread, where the strategy spreads them: not over those that copy."""
    if not strategy.capabilities.sharded_parameters:
        return 1
    sizes: dict[str, int] = getattr(strategy, "mesh_sizes", {})
    spread = ("data", "shard", "tensor")
    return prod(size for name, size in sizes.items() if name.startswith(spread) and "replicate" not in name)


def _on_meta(tensor: Tensor) -> Tensor:
    meta = tensor.detach().to("meta")
    return nn.Parameter(meta, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else meta


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Return what tensors take here: of one that is spread over ranks, this rank's part."""
    parts = (tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors)
    return sum(part.numel() * part.element_size() for part in parts)
