"""Pipelines: each rank holds some of a row of layers; the pieces of a batch go through them by torch's schedules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from inspect import signature
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ParallelStyle
from torch.optim import Optimizer

from lt_core.arguments import checks_arguments
from lt_core.checkpoint import Stored
from lt_core.errors import ConfigError, did_you_mean
from lt_core.launcher import Launcher
from lt_core.precision import Precision
from lt_strategies.distributed import own_part
from lt_strategies.sharded import states
from lt_strategies.sharded.clipping import norm_of, scale_to
from lt_strategies.sharded.fsdp import ModelParallel, check_choice, is_sharded
from lt_strategies.sharded.materialize import materialize, on_meta
from lt_strategies.sharded.mesh import Sizes, part_of_data, tensor_name
from lt_strategies.sharded.split import split_layers

__all__ = ["PipelineParallel", "Pipelined"]

_SCHEDULES: dict[str, type[Schedule1F1B | ScheduleGPipe]] = {"1F1B": Schedule1F1B, "GPipe": ScheduleGPipe}


class Pipelined(nn.Module):
    """Layers that are called one after the other, and the loss of what comes out of the last one.

    Called with inputs and targets it returns the loss, with inputs alone what comes out, on every rank the same. Under
    :class:`PipelineParallel` each rank holds some of the layers; the loss's gradients exist when it is returned, and
    ``backward`` adds them to the parameters'. Elsewhere it is a plain module.

    Args:
        layers: each takes what the one before returns, a tensor whose first dimension is the batch.
        loss: ``loss(output, target)``, shape ``()``: a mean over the samples.
    """

    def __init__(self, layers: Iterable[nn.Module], loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.loss = loss
        self._line: _Line | None = None

    def forward(self, inputs: Tensor, target: Tensor | None = None) -> Tensor:
        if self._line is not None:
            return self._line.run(inputs, target)
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs if target is None else self.loss(inputs, target)

    def connect(self, line: _Line) -> None:
        """Have other ranks compute what this one has no layers for."""
        self._line = line

    def let_go(self) -> None:
        """Drop what refers to the process group."""
        self._line = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_line": None}


class _Elsewhere(nn.Module):
    """Stands for a layer that another rank holds."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.names = _whole_order(layer)
        self.stands_for = [layer.to("meta")]  # to be counted; in a list it is no part of this module

    def forward(self, inputs: Tensor) -> Tensor:
        raise ConfigError(
            "This process holds one part of a pipeline's layers. Run it with the strategy that it was trained with, or "
            "load its checkpoint into a new module.",
            code="LT790",
        )


class _Line:
    """One rank's place in a pipeline.

    Args:
        layers: of this rank.
        loss: of the last rank's output.
        group: the ranks of the pipeline, in its order.
        device: of this rank.
        micro_batches: pieces that a batch is cut into, at most.
        schedule: a class of torch.distributed.pipelining.
    """

    def __init__(
        self, layers: nn.Module, loss: Callable[..., Tensor], group: ProcessGroup, device: torch.device,
        micro_batches: int, schedule: type[Schedule1F1B | ScheduleGPipe],
    ) -> None:  # fmt: skip
        self._layers, self._loss, self._group, self._device = layers, loss, group, device
        self._micro_batches, self._schedule = micro_batches, schedule
        self._made: dict[str, tuple[Any, Any]] = {}
        self._index, self._count = dist.get_rank(group), dist.get_world_size(group)
        self._last = self._index == self._count - 1

    def run(self, inputs: Tensor, target: Tensor | None) -> Tensor:
        if target is None:
            return self._predict(inputs)
        params = [param for param in self._layers.parameters() if param.requires_grad]
        if torch.is_grad_enabled():
            loss: Tensor = _Trained.apply(self, inputs, target, *params)  # type: ignore[no-untyped-call]
            return loss
        losses: list[Tensor] = []
        self._ready("evaluation", inputs, self._loss).eval(*self._first(inputs), **self._targets(target), losses=losses)
        return self._mean(losses)

    def train(self, inputs: Tensor, target: Tensor, params: Sequence[nn.Parameter]) -> tuple[Tensor, list[Any]]:
        """Return the loss and the gradients of ``params``, which keep those that they have."""
        before = [param.grad for param in params]
        for param in params:
            param.grad = None
        losses: list[Tensor] = []
        schedule = self._ready("training", inputs, self._loss)
        schedule.step(*self._first(inputs), **self._targets(target), losses=losses, return_outputs=False)
        found = [param.grad for param in params]
        for param, gradient in zip(params, before, strict=True):
            param.grad = gradient
        return self._mean(losses), found

    def _predict(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            output = self._ready("prediction", inputs, None).eval(*self._first(inputs))
        form = [None if output is None else (output.shape, output.dtype)]
        dist.broadcast_object_list(form, group=self._group, group_src=self._count - 1, device=self._device)
        shape, dtype = form[0]  # type: ignore[misc]
        whole = torch.empty(shape, dtype=dtype, device=self._device) if output is None else output.contiguous()
        dist.broadcast(whole, group=self._group, group_src=self._count - 1)
        return whole

    def _ready(self, use: str, inputs: Tensor, loss: Callable[..., Tensor] | None) -> Any:
        """Return the schedule of one use for inputs of this shape; torch's stages keep memory for one shape each."""
        form = (inputs.shape, inputs.dtype)
        if use not in self._made or self._made[use][0] != form:
            size = len(inputs)
            pieces = next(n for n in range(min(self._micro_batches, size), 0, -1) if size % n == 0)
            kind = self._schedule if pieces >= self._count else ScheduleGPipe
            stage = PipelineStage(self._layers, self._index, self._count, self._device, group=self._group)
            self._made[use] = form, kind(stage, pieces, loss_fn=loss)
        return self._made[use][1]

    def _first(self, inputs: Tensor) -> tuple[Tensor, ...]:
        return (inputs,) if self._index == 0 else ()

    def _targets(self, target: Tensor) -> dict[str, Tensor]:
        return {"target": target} if self._last else {}

    def _mean(self, losses: list[Tensor]) -> Tensor:
        """Return the last rank's mean, on all ranks of the pipeline."""
        mean = torch.stack(losses).detach().mean().float() if losses else torch.zeros((), device=self._device)
        dist.broadcast(mean, group=self._group, group_src=self._count - 1)
        return mean


class _Trained(torch.autograd.Function):
    """A pipeline's step as one node of autograd's graph."""

    @staticmethod
    def forward(ctx: Any, line: _Line, inputs: Tensor, target: Tensor, *params: nn.Parameter) -> Tensor:
        with torch.enable_grad():
            loss, found = line.train(inputs, target, params)
        ctx.save_for_backward(*found)
        return loss

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> Any:
        return None, None, None, *(None if found is None else found * scale for found in ctx.saved_tensors)


class PipelineParallel(ModelParallel):
    """Spreads the layers of each :class:`Pipelined` part of the module over ranks, by torch's own pipelining.

    Ranks along a dimension whose name begins with ``data`` hold copies and read data of their own. A checkpoint is one
    file with the weights and states of all layers, which one process reads too.

    Args:
        mesh: sizes by name, ``{"data_replicate": 2, "pipeline": 4, "tensor": 2}``; by default all ranks are one
            pipeline.
        micro_batches: pieces that each batch is cut into, at most: the largest such divisor of its size.
        schedule: ``"1F1B"`` or ``"GPipe"``; a batch of fewer pieces than ranks goes by GPipe.
        layers_per_rank: how many layers each rank of a pipeline holds; by default about as many each.
        parallelize: how layers are split over ``tensor``, as for :class:`ModelParallel`.
        launcher: who starts the processes: a name from ``lt.launchers`` or an object.
        process_group_backend: torch's backend; NCCL for CUDA and gloo for the CPU by default.
        timeout: how long a rank waits for the others; a number is in seconds.
        step_deadline: seconds without a batch done after which a rank counts as hung; None for never.
        others: none; those of :class:`ModelParallel` get an error of their own.
    """

    name = "pipeline"

    @checks_arguments
    def __init__(
        self,
        *,
        mesh: Sizes | None = None,
        micro_batches: int = 4,
        schedule: Literal["1F1B", "GPipe"] = "1F1B",
        layers_per_rank: Sequence[int] | None = None,
        parallelize: Mapping[str, ParallelStyle | str] | Literal["auto"] | None = None,
        launcher: str | Launcher | None = "script",
        process_group_backend: str | None = None,
        timeout: timedelta | float = timedelta(minutes=10),
        step_deadline: float | None = 600.0,
        **others: Any,
    ) -> None:
        mesh = {"pipeline": "auto"} if mesh is None else mesh
        kinds = ("data", "pipeline") if parallelize is None else ("data", "pipeline", "tensor")
        unknown = [name for name in mesh if name == "data_shard" or not name.startswith(kinds)]
        if unknown or not any(name.startswith("pipeline") for name in mesh) or others:
            known = signature(PipelineParallel).parameters if others else ("pipeline", "data_replicate", "tensor")
            raise ConfigError(
                f"PipelineParallel({', '.join([f'mesh={dict(mesh)}', *others])}): expected the dimension 'pipeline' "
                "and 'data_replicate' for copies, 'tensor' with parallelize={...}, and nothing that shards layers: "
                "ModelParallel does that." + did_you_mean(next(iter([*others, *unknown]), ""), known),
                code="LT791",
            )
        if isinstance(micro_batches, bool) or not isinstance(micro_batches, int) or micro_batches < 1:
            raise ConfigError(
                f"PipelineParallel(micro_batches={micro_batches!r}): expected a whole number of pieces, 1 or more; "
                "1 is the whole batch.",
                code="LT757",
            )
        if parallelize is not None and tensor_name(dict.fromkeys(mesh, 1)) is None:
            raise ConfigError(
                "PipelineParallel(parallelize=...) splits layers over the dimension 'tensor': write "
                "mesh={'pipeline': 'auto', 'tensor': 2}.",
                code="LT785",
            )
        check_choice("schedule", schedule, _SCHEDULES, "PipelineParallel")
        super().__init__(
            mesh=mesh,
            parallelize=parallelize,
            launcher=launcher,
            process_group_backend=process_group_backend,
            timeout=timeout,
            step_deadline=step_deadline,
        )
        self._micro_batches, self._schedule, self._layers_per_rank = micro_batches, schedule, layers_per_rank
        self._held: set[int] = set()

    # ---- place -------------------------------------------------------------------------------------------------------

    @property
    def _line_name(self) -> str:
        return next(name for name in self.mesh_sizes if name.startswith("pipeline"))

    @property
    def _line_group(self) -> ProcessGroup:
        group: ProcessGroup = self.device_mesh.get_group(self._line_name)
        return group

    @property
    def schedule_text(self) -> str:
        pieces, count = self._micro_batches, self.mesh_sizes[self._line_name]
        return (
            f"schedule {self._schedule}: a batch in {pieces} pieces at most; each stage sends as many outputs to the "
            f"next one and gradients back, and is idle for about {count - 1}/{pieces + count - 1} of a step"
        )

    def stages(self, module: nn.Module) -> list[list[str]]:
        count = self.mesh_sizes[self._line_name]
        found: list[list[str]] = [[] for _ in range(count)]
        for path, part in module.named_modules():
            for number, holder in enumerate(self._holders(part, count) if isinstance(part, Pipelined) else ()):
                names = f"{path}.layers.{number}".lstrip(".")
                found[holder] += [f"{names}.{name}" for name, _ in part.layers[number].named_parameters()]
        return found

    def whole_module(self, module: nn.Module) -> nn.Module:
        if isinstance(module, _Elsewhere):
            return module.stands_for[0]
        children = {name: child and self.whole_module(child) for name, child in module._modules.items()}
        if all(child is module._modules[name] for name, child in children.items()):
            return module
        whole = copy.copy(module)
        whole._modules = children
        return whole

    def _check_plan(self, module: nn.Module) -> None:
        if "return_outputs" not in signature(ScheduleGPipe.step).parameters:
            raise ConfigError(
                f"strategy='pipeline': the torch.distributed.pipelining of torch {torch.__version__} is too old. Take "
                "torch 2.13, or strategy='fsdp'.",
                code="LT772",
            )
        if not any(_lines(module)):
            raise ConfigError(
                "strategy='pipeline': no part of the module is a Pipelined(layers, loss), whose layers could be spread "
                "over the ranks.",
                code="LT792",
            )

    def _check_same_parameters(self, module: nn.Module) -> None:
        if not any(isinstance(part, _Elsewhere) for part in module.modules()):  # not in a second run
            super()._check_same_parameters(module)

    def _is_spread(self, module: nn.Module) -> bool:
        return False  # layers are connected in each run, also where they stay as they are

    def _spread(self, module: nn.Module) -> None:
        group = self._line_group
        index, count = dist.get_rank(group), dist.get_world_size(group)
        tensor = tensor_name(self.mesh_sizes)
        placed = is_sharded(module) or any(isinstance(part, _Elsewhere) for part in module.modules())
        if self.parallelize is not None and tensor is not None and not placed:  # not in a second run
            split_layers(module, self.device_mesh[tensor], self.parallelize, split_loss=False)
        alike = self._alike(*filter(None, [tensor]))
        for part in _lines(module):
            holders = self._holders(part, count)
            _check_untied(part)
            if not any(isinstance(layer, _Elsewhere) for layer in part.layers):  # not in a second run
                for number, holder in enumerate(holders):
                    self._place_layer(part.layers, number, alike, keep=holder == index)
            own = nn.Sequential(*(layer for layer in part.layers if not isinstance(layer, _Elsewhere)))
            kind = _SCHEDULES[self._schedule]
            part.connect(_Line(own, part.loss, group, self.device, self._micro_batches, kind))
            self._opened.on_leave(part, Pipelined.let_go)
        if on_meta(module):
            materialize(module, self.device, self._broadcast_tensors)
        module.to(self.device)
        held = {id(tensor) for part in _lines(module) for tensor in (*part.parameters(), *part.buffers())}
        rest = (*module.parameters(), *module.buffers())
        self._broadcast_tensors(tensor for tensor in rest if id(tensor) not in held)

    def _holders(self, part: Pipelined, count: int) -> list[int]:
        """Return which of a pipeline's ``count`` ranks holds each layer."""
        sizes = self._layers_per_rank or _even(len(part.layers), count)
        if len(sizes) != count or sum(sizes) != len(part.layers) or min(sizes) < 1:
            raise ConfigError(
                f"PipelineParallel(layers_per_rank={list(sizes)}): expected {count} numbers of at least 1 that add up "
                f"to the {len(part.layers)} layers.",
                code="LT793",
            )
        return [rank for rank, size in enumerate(sizes) for _ in range(size)]

    def _place_layer(self, layers: nn.ModuleList, number: int, alike: ProcessGroup, *, keep: bool) -> None:
        """Give a layer rank 0's values; a rank that does not keep it holds it no longer than that."""
        layer = layers[number]
        materialize(layer, self.device, self._broadcast_tensors)
        layer.to(self.device)
        tensors = (*layer.parameters(), *layer.buffers())
        self._broadcast_tensors(tensor for tensor in tensors if not isinstance(tensor, DTensor))
        self._broadcast_tensors((own_part(tensor) for tensor in tensors if isinstance(tensor, DTensor)), alike)
        if not keep:
            layers[number] = _Elsewhere(layer)

    def _averaged(
        self, module: nn.Module, plain: list[nn.Parameter]
    ) -> list[tuple[ProcessGroup | None, list[nn.Parameter]]]:
        copies = self._alike(self._line_name)
        held = _held(module)
        return [
            (copies, [param for param in plain if id(param) in held]),
            (None, [param for param in plain if id(param) not in held]),
        ]

    def _copies(self, module: nn.Module) -> list[tuple[ProcessGroup, list[nn.Parameter], bool]]:
        tensor = tensor_name(self.mesh_sizes)
        if tensor is None:
            return []
        split: list[nn.Parameter] = [param for param in module.parameters() if isinstance(param, DTensor)]
        return [(self._alike(self._line_name, tensor), split, True)]

    def _alike(self, *names: str) -> ProcessGroup:
        """Return the ranks that stand where this one does along ``names``."""
        sizes, found = self.mesh_sizes, dict[int, list[int]]()
        for rank in range(self.world_size):
            found.setdefault(part_of_data(sizes, rank, names).index, []).append(rank)
        return self._opened.part(found.values())

    # ---- step --------------------------------------------------------------------------------------------------------

    def setup(
        self, module: nn.Module, make_optimizers: Callable[[], list[Optimizer]] | None, precision: Precision
    ) -> tuple[nn.Module, list[Optimizer]]:
        if precision.scales and make_optimizers is not None:
            raise ConfigError(
                f"strategy='pipeline': precision={precision.name!r} scales the loss, and a pipeline's gradients exist "
                "before that. Take precision='bf16-mixed'.",
                code="LT794",
            )
        module, optimizers = super().setup(module, make_optimizers, precision)
        self._held = _held(module)
        return module, optimizers

    def clip_gradients(self, params: Iterable[nn.Parameter], value: float, algorithm: str = "norm") -> Tensor | None:
        params = [param for param in params if param.grad is not None]
        if algorithm == "value":
            return super().clip_gradients(params, value, algorithm)
        held: list[Tensor] = []
        shared: list[Tensor] = []
        for param in params:
            assert param.grad is not None
            (held if id(param) in self._held else shared).append(param.grad)
        squares = norm_of(held).to(self.device).square()
        dist.all_reduce(squares, group=self._line_group)
        total = (squares + norm_of(shared).to(self.device).square()).sqrt()
        scale_to((*held, *shared), value, total)
        return total

    # ---- save --------------------------------------------------------------------------------------------------------

    def module_state(self, module: nn.Module) -> dict[str, Any]:
        """Return the whole state on rank 0; each rank's part goes by all ranks, one part at a time."""
        return self._gathered(module, keep=self.rank == 0)

    def full_module_state(self, module: nn.Module) -> dict[str, Any]:
        return self._gathered(module, keep=True)

    def load_module_state(self, module: nn.Module, state: dict[str, Any], strict: bool = True) -> Any:
        elsewhere = set(_whole_order(module)) - set(module.state_dict())
        return states.load_module(module, state, self, strict=strict, elsewhere=elsewhere)

    def optimizer_state(self, module: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
        """Return the state on rank 0, with the numbers that parameters have in a module that is whole."""
        state = states.whole(optimizer.state_dict(), keep=True)
        mine, groups = self._numbered(module, optimizer)
        own = {mine[index]: entry for index, entry in state["state"].items()}
        found = self._merged(own, keep=self.rank == 0)
        numbers = {name: number for number, name in enumerate(name for group in groups for name in group)}
        listed = [
            {**group, "params": [numbers[name] for name in names]}
            for group, names in zip(state["param_groups"], groups, strict=True)
        ]
        entries = {number: found[name] for name, number in numbers.items() if name in found}
        return {**state, "state": entries, "param_groups": listed}

    def load_optimizer_state(self, module: nn.Module, optimizer: Optimizer, state: dict[str, Any]) -> None:
        if isinstance(state["state"], Stored):
            raise ConfigError(
                "strategy='pipeline' reads optimizers from one file, and this checkpoint is a folder of shards. Make "
                "it one: lt ckpt convert FOLDER FILE.",
                code="LT795",
            )
        mine, groups = self._numbered(module, optimizer)
        names = [name for group in groups for name in group]
        entries = {names[int(index)]: entry for index, entry in state["state"].items()}
        placed = {index: entries[name] for index, name in enumerate(mine) if name in entries}
        own = optimizer.state_dict()["param_groups"]
        listed = [{**saved, "params": here["params"]} for saved, here in zip(state["param_groups"], own, strict=True)]
        states.load_optimizer(optimizer, {"state": placed, "param_groups": listed})

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _gathered(self, module: nn.Module, *, keep: bool) -> dict[str, Any]:
        own = module.state_dict()
        found = self._merged(states.whole(own, keep=True), keep=keep)
        return {name: found[name] for name in _whole_order(module) if name in found}

    def _merged(self, own: dict[str, Any], *, keep: bool) -> dict[str, Any]:
        """Return what the ranks of the first pipeline hold together, where ``keep``; they give it one by one."""
        found: dict[str, Any] = {}
        sizes = self.mesh_sizes
        others = set(sizes) - {self._line_name}
        for source in range(self.world_size):
            if part_of_data(sizes, source, others).index == 0:
                part = self.broadcast(own if self.rank == source else None, source)
                found |= part if keep else {}
        return found

    def _numbered(self, module: nn.Module, optimizer: Optimizer) -> tuple[list[str], list[list[str]]]:
        """Return the names of an optimizer's parameters here, and those of each group on all ranks, in the order that
        they have in a module that is whole.
        """
        name_of = {id(param): name for name, param in module.named_parameters()}
        mine = [[name_of[id(param)] for param in group["params"]] for group in optimizer.param_groups]
        place = {name: number for number, name in enumerate(_whole_order(module))}
        everyone = self.gather_objects(mine)
        groups = [
            sorted({name for rank in ranks for name in rank}, key=place.__getitem__)
            for ranks in zip(*everyone, strict=True)
        ]
        return [name for names in mine for name in names], groups


def _lines(module: nn.Module) -> Iterator[Pipelined]:
    return (part for part in module.modules() if isinstance(part, Pipelined))


def _held(module: nn.Module) -> set[int]:
    """Return the parameters of which each rank of a pipeline has others."""
    return {id(param) for part in _lines(module) for param in part.parameters()}


def _even(layers: int, ranks: int) -> list[int]:
    return [layers // ranks + (rank < layers % ranks) for rank in range(ranks)]


def _check_untied(part: Pipelined) -> None:
    layer_of: dict[int, int] = {}
    for number, layer in enumerate(part.layers):
        for name, param in layer.named_parameters():
            if layer_of.setdefault(id(param), number) != number:
                raise ConfigError(
                    f"Pipelined: {name} of layer {number} is a parameter of layer {layer_of[id(param)]} too, and "
                    "layers may be on different ranks. Give each its own.",
                    code="LT796",
                )


def _whole_order(module: nn.Module) -> list[str]:
    """Return the names of all parameters and buffers, those on other ranks too, as in a module that is whole."""
    order: list[str] = []
    for path, part in module.named_modules():
        own = (*part._parameters, *part._buffers)
        names = part.names if isinstance(part, _Elsewhere) else own
        order += [f"{path}.{name}".lstrip(".") for name in names]
    return order
