"""A rank's share of a model and its optimizers: counted beforehand, and when memory runs out.

The Trainer finds both functions by entry points in ``lt.defaults``: ``explain`` calls :func:`memory`, and the error of
an out-of-memory error gets the text of :func:`out_of_memory`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.optim import Optimizer
from torch.utils.data import DataLoader, IterableDataset

from lt_core.arguments import matched
from lt_core.batch import map_batch
from lt_core.data import holds_loaders
from lt_core.errors import ConfigError, silenced
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.seed import preserve_generators
from lt_core.strategy import Strategy, SupportsStages

OptimizersOf = Callable[[LightningModule], Iterable[Optimizer]]
"""Returns the optimizers that a module's ``configure_optimizers`` makes."""

__all__ = ["memory"]


def memory(
    module: LightningModule, precision: Precision, strategy: Strategy, loaders: Any, optimizers_of: OptimizersOf
) -> str:
    """Return the memory of parameters, gradients, optimizers, and activations of a batch on a rank, as text.

    The module is copied to torch's meta device, ``configure_model`` called there, and the optimizers take a step of
    nothing, so that their states are counted and not guessed. ``strategy`` is as it would stand on a rank.
    """
    try:
        model: LightningModule = _copied(module, "meta")
        with torch.device("meta"):
            model.configure_model()
        precision.convert_module(model)
    except Exception as error:  # a module that cannot be copied, or needs a run to make its layers
        return f"Memory: not counted, the module cannot be made without memory: {error}"
    held = _held(model, strategy, optimizers_of)
    return held if loaders is None else f"{held}\n  {_activations(model, precision, strategy, loaders)}"


def _held(model: LightningModule, strategy: Strategy, optimizers_of: OptimizersOf) -> str:
    trained = [param for param in model.parameters() if param.requires_grad]
    for param in trained:
        param.grad = torch.zeros_like(param)
    count = sum(param.numel() for param in model.parameters())
    head = f"Memory (GB on each rank, without activations): {count:,} parameters"
    try:
        states = _states(optimizers_of(model))
        unknown = ""
    except Exception as error:  # whatever a user's configure_optimizers asks of a run
        states, unknown = None, f"; optimizers are not counted, configure_optimizers needs a run: {error}"
    params = list(model.parameters())
    if (stages := getattr(strategy, "stages", None)) is None:
        parts = _parts(strategy)
        spread = f"spread over {parts} ranks" if parts > 1 else "whole on each rank"
        return f"{head}, {spread}\n  {_sizes(params, states, parts)}{unknown}"
    try:
        of_stage = stages(model)
    except ConfigError as error:
        return f"{head}: the run would end with {error}"
    name_of = {param: name for name, param in model.named_parameters()}
    somewhere = {name for names in of_stage for name in names}
    lines = []
    for number, names in enumerate(map(set, of_stage)):
        own = [param for param in params if name_of[param] in names or name_of[param] not in somewhere]
        lines.append(f"  stage {number}: {_sizes(own, states, _parts(strategy, ('data_shard', 'tensor')))}")
    how = cast("SupportsStages", strategy).schedule_text
    return "\n".join([f"{head}, layers spread over {len(lines)} stages{unknown}", *lines, f"  {how}"])


def _sizes(params: list[nn.Parameter], states: dict[Tensor, int] | None, parts: int = 1) -> str:
    """Return the memory of parameters with their gradients and states, of which a rank has one of ``parts``."""
    sizes = {"parameters": _bytes(params), "gradients": _bytes(param for param in params if param.requires_grad)}
    if states is not None:
        sizes["optimizers"] = sum(states.get(param, 0) for param in params)
    each = ", ".join(f"{name} {_gb(size / parts)}" for name, size in sizes.items())
    return f"{each}: {_gb(sum(sizes.values()) / parts)} together"


def out_of_memory(module: nn.Module, optimizers: Iterable[Optimizer], device: torch.device) -> str:
    """Return the contents of a full device's memory, and remedies, as text."""
    params = list(module.parameters())
    sizes = {
        "parameters and buffers": _bytes((*params, *module.buffers())),
        "gradients": _bytes(param.grad for param in params if param.grad is not None),
        "optimizers": sum(_bytes(_tensors(entry)) for made in optimizers for entry in made.state.values()),
    }
    each = ", ".join(f"{name} {_gb(size)}" for name, size in sizes.items())
    text = f"of this rank's memory these hold (GB): {each}"
    if device.type in ("cuda", "xpu"):
        used, reserved = torch.accelerator.max_memory_allocated(device), torch.accelerator.memory_reserved(device)
        text += f", of {used / 1e9:.3f} at the fullest; the rest is activations, batches, and your code's own tensors"
        if reserved > 1.2 * used:
            text += f". {(reserved - used) / 1e9:.3f} lie between: PYTORCH_ALLOC_CONF=expandable_segments:True"
    return (
        f"{text}. Trainer(accumulate_grad_batches='auto'), precision='bf16-mixed' and activation checkpointing "
        "leave less to activations; strategy='fsdp' spreads the rest over the ranks. [LT354]"
    )


def _activations(module: LightningModule, precision: Precision, strategy: Strategy, loaders: Any) -> str:
    """Return the tensors that a training step keeps for backward, as text: it runs on tensors without memory.

    Autocast's copies of the weights are no activations: a strategy that shards gathers weights in that type at once,
    and drops them; elsewhere they stay until the step's end.
    """
    narrow = precision.compute_dtype
    try:
        precision = copy.copy(precision)
        precision.open(torch.device("cpu"))
        with preserve_generators(), silenced(["LT528"]):  # its self.log is not heard
            batch = precision.convert_input(_first_batch(loaders))
            kept = _kept(module, narrow, precision, batch)
            sharded = strategy.capabilities.sharded_parameters
            whole = kept if narrow is None or sharded else _kept(module, None, precision, batch)
    except Exception as error:  # whatever a user's loader or step asks of a run
        return f"activations: not counted: {str(error).partition(chr(10))[0]}"
    copies = f"; {str(narrow).removeprefix('torch.')} copies of the weights: {_gb(whole - kept)}" * (whole > kept)
    size = f"activations of a batch: {_gb(kept)} more"
    return f"{size}, or less where layers are split over ranks or computed again{copies}"


def _kept(module: LightningModule, weights: torch.dtype | None, precision: Precision, batch: Any) -> int:
    """Return the bytes that a step keeps for backward beside the module's own tensors; ``weights``: their type."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # half a second, for explain alone

    kept = dict[int, Tensor]()

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with FakeTensorMode(allow_non_fake_inputs=True) as fake, saved_tensors_hooks(keep, keep):
        # made within the mode, where a real parameter is another tensor
        model: LightningModule = _copied(module, "cpu", weights)
        step = precision.wrap_step(matched(model.training_step, ("batch", "batch_idx")) or model.training_step)
        step(map_batch(lambda item: fake.from_tensor(item) if isinstance(item, Tensor) else item, batch), 0)
    own = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
    return sum(tensor.untyped_storage().nbytes() for number, tensor in kept.items() if number not in own)


def _first_batch(loaders: Any) -> Any:
    """Return a batch without workers, and not from a sampler or stream that would go on from there."""
    if isinstance(loaders, (list, tuple)) and not holds_loaders(loaders):
        return loaders[0]
    if not isinstance(loaders, DataLoader) or isinstance(loaders.dataset, IterableDataset) or not loaders.batch_size:
        raise TypeError("for this loader give train_dataloaders=[a batch]")
    return next(iter(DataLoader(loaders.dataset, loaders.batch_size, collate_fn=loaders.collate_fn)))


def _copied(module: nn.Module, device: str, narrow: torch.dtype | None = None) -> Any:
    """Return a copy of the module with all its tensors on ``device``, without values; parameters in ``narrow``, but for
    results of layers with float buffers (BatchNorm).
    """
    memo: dict[int, Any] = {}
    for part in module.modules():
        buffers = list(part.buffers(recurse=False))
        dtype = None if any(buffer.is_floating_point() for buffer in buffers) else narrow
        for tensor in (*buffers, *part.parameters(recurse=False)):
            memo[id(tensor)] = _elsewhere(tensor, device, dtype)
    return copy.deepcopy(module, memo)


def _states(optimizers: Iterable[Optimizer]) -> dict[Tensor, int]:
    """Return the bytes that the optimizers keep for each parameter after a step."""
    kept: dict[Tensor, int] = {}
    for optimizer in optimizers:
        optimizer.step()
        kept |= {param: _bytes(_tensors(entry)) for param, entry in optimizer.state.items()}
    return kept


def _gb(size: float) -> str:
    return f"{size / 1e9:.3f}" if size >= 5e5 or not size else "<0.001"


def _tensors(entry: dict[str, Any]) -> Iterator[Tensor]:
    return (value for value in entry.values() if isinstance(value, Tensor))


def _parts(strategy: Strategy, spread: tuple[str, ...] = ("data", "shard", "tensor")) -> int:
    """Return over how many ranks a parameter is spread, where the strategy spreads them; copies count once."""
    if not strategy.capabilities.sharded_parameters:
        return 1
    sizes: dict[str, int] = getattr(strategy, "mesh_sizes", {})
    return prod(size for name, size in sizes.items() if name.startswith(spread) and "replicate" not in name)


def _elsewhere(tensor: Tensor, device: str, dtype: torch.dtype | None) -> Tensor:
    dtype = dtype if tensor.is_floating_point() else None
    empty = torch.empty_like(tensor, device=device, dtype=dtype, requires_grad=False)
    return nn.Parameter(empty, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Return the memory of tensors here: of one that is spread over ranks, this rank's part."""
    parts = (tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors)
    return sum(part.numel() * part.element_size() for part in parts)
