"""A rank's share of a model and its optimizers: counted beforehand, and when memory runs out.

The Trainer finds both functions by entry points in ``lt.defaults``: ``explain`` calls :func:`memory`, and the error of
an out-of-memory error gets the text of :func:`out_of_memory`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
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
from lt_memory.fullest import Fullest

OptimizersOf = Callable[[LightningModule], Iterable[Optimizer]]
"""Returns the optimizers that a module's ``configure_optimizers`` makes."""

__all__ = ["memory"]


def memory(
    module: LightningModule,
    precision: Precision,
    strategy: Strategy,
    loaders: Any,
    optimizers_of: OptimizersOf,
    window: int = 1,
) -> str:
    """Return the memory of parameters, gradients, optimizers, and activations of a batch on a rank, and the bytes that
    it sends in a step of ``window`` batches, as text.

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
    gathering = _gathering(model, strategy, precision)
    held, sizes = _held(model, strategy, optimizers_of, gathering is None or gathering.each_batch or window == 1)
    lines = [held]
    if loaders is not None:
        lines.append(_activations(model, precision, strategy, loaders, sizes, gathering, window))
    if strategy.world_size > 1 and sizes:
        lines.append(_sent(model, strategy, gathering, window))
    return "\n  ".join(filter(None, lines))


def _gathering(model: LightningModule, strategy: Strategy, precision: Precision) -> Any | None:
    """Return how a strategy that shards gathers layers (``FSDP.gathering``); None of others.

    From then on the module computes activations again where the strategy would.
    """
    gathering: Callable[..., Any] | None = getattr(strategy, "gathering", None)
    return None if gathering is None or hasattr(strategy, "stages") else gathering(model, precision.compute_dtype)


def _held(
    model: LightningModule, strategy: Strategy, optimizers_of: OptimizersOf, spreads_gradients: bool
) -> tuple[str, dict[str, float]]:
    """Return the text, and the bytes on each rank by kind, with those of the optimizers' step alone; none where they
    are not known, or not the same on all ranks.
    """
    trained = [param for param in model.parameters() if param.requires_grad]
    for param in trained:
        param.grad = torch.zeros_like(param)
    count = sum(param.numel() for param in model.parameters())
    head = f"Memory (GB on each rank, without activations): {count:,} parameters"
    try:
        states, more = _states(optimizers_of(model), foreach=strategy.device.type != "cpu")
        unknown = ""
    except Exception as error:  # whatever a user's configure_optimizers asks of a run
        states, more, unknown = None, 0, f"; optimizers are not counted, configure_optimizers needs a run: {error}"
    params = list(model.parameters())
    if (stages := getattr(strategy, "stages", None)) is None:
        parts = _parts(strategy)
        spread = f"spread over {parts} ranks" if parts > 1 else "whole on each rank"
        sizes = _sizes(params, states, parts, spreads_gradients)
        text = f"{head}, {spread}\n  {_told(sizes)}{unknown}"
        stepping = sum(_sizes(params, states, parts).values()) + more / parts  # all gradients are reduced by then
        return text, {} if states is None else sizes | {"step": stepping}
    try:
        of_stage = stages(model)
    except ConfigError as error:
        return f"{head}: the run would end with {error}", {}
    name_of = {param: name for name, param in model.named_parameters()}
    somewhere = {name for names in of_stage for name in names}
    lines = []
    for number, names in enumerate(map(set, of_stage)):
        own = [param for param in params if name_of[param] in names or name_of[param] not in somewhere]
        lines.append(f"  stage {number}: {_told(_sizes(own, states, _parts(strategy, ('data_shard', 'tensor'))))}")
    how = cast("SupportsStages", strategy).schedule_text
    return "\n".join([f"{head}, layers spread over {len(lines)} stages{unknown}", *lines, f"  {how}"]), {}


def _sizes(
    params: list[nn.Parameter], states: dict[Tensor, int] | None, parts: int, spreads_gradients: bool = True
) -> dict[str, float]:
    """Return the memory of parameters with their gradients and states, of which a rank has one of ``parts``."""
    gradients = _bytes(param for param in params if param.requires_grad)
    sizes = {"parameters": _bytes(params) / parts, "gradients": gradients / (parts if spreads_gradients else 1)}
    if states is not None:
        sizes["optimizers"] = sum(states.get(param, 0) for param in params) / parts
    return sizes


def _told(sizes: dict[str, float]) -> str:
    each = ", ".join(f"{name} {_gb(size)}" for name, size in sizes.items())
    return f"{each}: {_gb(sum(sizes.values()))} together"


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


def _activations(
    module: LightningModule,
    precision: Precision,
    strategy: Strategy,
    loaders: Any,
    sizes: dict[str, float],
    gathering: Any | None,
    window: int,
) -> str:
    """Return what a training step of one batch keeps for backward, and takes at its fullest, as text: it runs on
    tensors without memory.

    Autocast's copies of the weights are no activations: a strategy that shards gathers weights in that type at once,
    and drops them; elsewhere they stay until the step's end.
    """
    narrow = precision.compute_dtype
    parts = _parts(strategy) if window == 1 else 0  # gradients fill memory as activations leave it
    groups = [] if gathering is None else gathering.groups
    try:
        precision = copy.copy(precision)
        precision.open(torch.device("cpu"))
        with preserve_generators(), silenced(["LT528"]):  # its self.log is not heard
            batch = precision.convert_input(_first_batch(loaders))
            kept, most = _kept(module, narrow, precision, batch, parts, groups)
            sharded = strategy.capabilities.sharded_parameters
            whole, most = (
                (kept, most) if narrow is None or sharded else _kept(module, None, precision, batch, parts, [])
            )
    except Exception as error:  # whatever a user's loader or step asks of a run
        return f"activations: not counted: {str(error).partition(chr(10))[0]}"
    copies = f"; {str(narrow).removeprefix('torch.')} copies of the weights: {_gb(whole - kept)}" * (whole > kept)
    size = f"activations of a batch: {_gb(kept)} more"
    told = f"{size}, or less where layers are split over ranks or computed again{copies}"
    if not sizes:
        return told
    buckets = sizes["gradients"] * (getattr(strategy, "ddp_arguments", {}).get("gradient_as_bucket_view") is False)
    gathered = 0 if gathering is None else gathering.whole
    held = buckets + sizes["parameters"] + sizes["gradients"] + sizes["optimizers"]
    known = [f"{_gb(gathered)} of layers gathered at a time"] * bool(gathered)
    known += [f"{_gb(buckets)} of DDP's buckets (gradient_as_bucket_view=True saves them)"] * bool(buckets)
    fullest = f"forward and backward at their fullest: {_gb(held - bool(parts) * sizes['gradients'] + most + gathered)}"
    told = "\n  ".join([told, ", with ".join([fullest, " and ".join(known)] if known else [fullest])])
    return f"{told}\n  the optimizers' step at its fullest: {_gb(buckets + sizes['step'])}"


def _kept(
    module: LightningModule,
    weights: torch.dtype | None,
    precision: Precision,
    batch: Any,
    parts: int,
    groups: Sequence[Sequence[int]],
) -> tuple[int, int]:
    """Return the bytes that a step keeps for backward beside the module's own tensors, and the most that it makes.

    Args:
        module: whose step it is.
        weights: type of its parameters.
        precision: around the step.
        batch: its first.
        parts: over how many ranks gradients are spread as they are made; 0: into memory that is there already.
        groups: numbers of the parameters whose gradients are whole until all are there; others' are spread at once.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode  # half a second, for those who ask

    # autograd starts its threads by now: in that mode it would find a GPU, and no fork of this process could train
    torch.zeros((), requires_grad=True).backward()  # type: ignore[no-untyped-call]
    kept = dict[int, Tensor]()

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor = tensor.detach()  # an output would hold itself by its node
        return tensor

    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        # made within the mode, where a real parameter is another tensor
        model: LightningModule = _copied(module, "cpu", weights)
        step = precision.wrap_step(matched(model.training_step, ("batch", "batch_idx")) or model.training_step)
        batch = map_batch(lambda item: fake.from_tensor(item) if isinstance(item, Tensor) else item, batch)
        with Fullest() as counter:
            with saved_tensors_hooks(keep, lambda tensor: tensor):
                output = step(batch, 0)
            own = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
            size = sum(tensor.untyped_storage().nbytes() for number, tensor in kept.items() if number not in own)
            kept.clear()
            if parts != 1:
                reduction = _Reduction([param.dtype for param in module.parameters()], parts)
                reduction.watch(list(model.parameters()), groups)
            loss = output["loss"] if isinstance(output, Mapping) else output
            del output
            loss.backward()
    return size, counter.most


class _Reduction:
    """Gradients that are spread over ranks while backward runs.

    Args:
        types: of the parameters' gradients, when they are reduced.
        parts: over how many ranks; 0: into memory that is there already.
    """

    def __init__(self, types: list[torch.dtype], parts: int) -> None:
        self._types, self._parts = types, parts
        self._spread, self._sent = list[Tensor](), torch.empty(0)

    def watch(self, params: list[nn.Parameter], groups: Sequence[Sequence[int]]) -> None:
        for numbers in groups or [[number] for number in range(len(params))]:
            members = [(params[number], self._types[number]) for number in numbers if params[number].requires_grad]
            for param, _ in members:
                param.register_post_accumulate_grad_hook(partial(self._reduce, members))  # type: ignore[no-untyped-call]

    def _reduce(self, members: list[tuple[nn.Parameter, torch.dtype]], _: Tensor) -> None:
        """Reduce a group's gradients when the last one is there; what is sent stays until the next group's."""
        if any(param.grad is None for param, _ in members):
            return
        sizes = [(param.numel(), kind) for param, kind in members]
        if len(members) > 1:
            self._sent = torch.empty(sum(size for size, _ in sizes), dtype=members[0][1])
        for member, _kind in members:
            member.grad = None
        self._spread += [torch.empty(size // self._parts, dtype=kind) for size, kind in sizes if self._parts]


def _sent(module: LightningModule, strategy: Strategy, gathering: Any | None, window: int) -> str:
    """Return what a rank sends to others for shards and copies, by rings as NCCL's, as text; not what layers send."""
    gradients: float = _bytes(param for param in module.parameters() if param.requires_grad)
    batches = f" of {window} batches" * (window > 1)
    if gathering is None:
        if not strategy.capabilities.syncs_in_forward:
            return ""
        count = strategy.world_size
        return f"sent by each rank in a step{batches}: gradients {_gb(2 * (count - 1) / count * gradients)}"
    shards, copies = gathering.shards, gathering.copies
    gradients *= shards / _parts(strategy)  # of layers that are split a rank has its part
    layers = (shards - 1) / shards * gathering.layers * gathering.times * window
    reduced = (shards - 1) / shards * gradients * (window if gathering.each_batch else 1)
    reduced += 2 * (copies - 1) / copies * gradients / shards
    return f"sent by each rank in a step{batches}: layers {_gb(layers)}, gradients {_gb(reduced)}"


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
        dtype = None if any(buffer.is_floating_point() for buffer in part.buffers(recurse=False)) else narrow
        for tensor in _tensors(vars(part)):  # those of attributes too
            memo[id(tensor)] = _elsewhere(tensor, device, dtype if isinstance(tensor, nn.Parameter) else None)
    return copy.deepcopy(module, memo)


def _states(optimizers: Iterable[Optimizer], foreach: bool) -> tuple[dict[Tensor, int], int]:
    """Return the bytes that the optimizers keep for each parameter after a step, and those of a step alone.

    Args:
        optimizers: on torch's meta device.
        foreach: whether torch would take all parameters at a time, its default on a GPU.
    """
    kept: dict[Tensor, int] = {}
    with Fullest() as counter:
        for optimizer in optimizers:
            for group in optimizer.param_groups if foreach else ():
                if group.get("foreach", ...) is None and not group.get("fused"):
                    group["foreach"] = True
            optimizer.step()
            kept |= {param: _bytes(_tensors(entry)) for param, entry in optimizer.state.items()}
    return kept, counter.most - counter.now


def _gb(size: float) -> str:
    return f"{size / 1e9:.3f}" if size >= 5e5 or not size else "<0.001"


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(each)


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
