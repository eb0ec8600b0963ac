"""Pipelines: the layers of a row are spread over ranks, and within a stage over more of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from inspect import signature
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.fsdp import FSDPModule
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ParallelStyle
from torch.optim import Optimizer

from lt_core.arguments import checks_arguments
from lt_core.errors import ConfigError, did_you_mean
from lt_core.launcher import Launcher
from lt_core.precision import Precision
from lt_parallel import states
from lt_parallel.clipping import norm_of, scale_to
from lt_parallel.fsdp import check_choice
from lt_parallel.materialize import materialize, on_meta
from lt_parallel.mesh import Sizes, part_of_data, part_of_tokens, tensor_name
from lt_parallel.model_parallel import ModelParallel
from lt_parallel.pipelined import Pipelined, RemoteLayer, StageLink, plain_name, whole_order
from lt_parallel.root import reshard
from lt_parallel.split import split_layers
from lt_strategies.distributed import own_part

__all__ = ["PipelineParallel"]

_SCHEDULES: dict[str, type[Schedule1F1B | ScheduleGPipe]] = {"1F1B": Schedule1F1B, "GPipe": ScheduleGPipe}
_DIMENSIONS = ("pipeline", "data_replicate", "data_shard", "context", "expert", "tensor")
_TALKING = ("data_shard", "data_expert")  # along these ranks with other samples talk within a layer
_ALSO = (
    "auto_wrap_policy", "mixed_precision", "activation_checkpointing_policy", "reshard_after_forward", "compile_blocks",
    "state_dict_type",
)  # fmt: skip


class PipelineParallel(ModelParallel):
    """Spreads the layers of each :class:`Pipelined` part of the module over ranks, by torch's own pipelining.

    Ranks along a dimension whose name begins with ``data`` read data of their own. Over ``data_shard`` the layers of a
    stage are sharded, each by itself; along the others they are copies. Layers that a plan splits over ``tensor``, or
    ``configure_model`` over ``expert`` or ``context``, stay so. A checkpoint is one file with the weights and states of
    all layers, which one process reads too, or a folder with each rank's part.

    Args:
        mesh: sizes by name, ``{"data_shard": 2, "pipeline": 4, "tensor": 2}``; by default all ranks are one
            pipeline.
        micro_batches: pieces that each batch is cut into, at most: the largest such divisor of its size.
        schedule: ``"1F1B"`` or ``"GPipe"``; a batch of fewer pieces than ranks goes by GPipe.
        layers_per_rank: how many layers each rank of a pipeline holds; by default about as many each.
        parallelize: how layers are split over ``tensor``, as for :class:`ModelParallel`.
        launcher: who starts the processes: a name from ``lt.launchers`` or an object.
        process_group_backend: torch's backend; NCCL for CUDA and gloo for the CPU by default.
        timeout: how long a rank waits for the others; a number is in seconds.
        step_deadline: seconds without a batch done after which a rank counts as hung, six times as many until its
            first batch is done; None for never.
        others: ``auto_wrap_policy`` (by default each layer), ``mixed_precision``, ``activation_checkpointing_policy``,
            ``compile_blocks``, ``state_dict_type`` and ``reshard_after_forward`` as for :class:`FSDP`; the last is
            False by default, so that a layer is gathered once for all pieces of a batch.
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
        kinds = ("data", *(name for name in _DIMENSIONS if name != "tensor" or parallelize is not None))
        unknown = [name for name in mesh if not name.startswith(kinds)]
        foreign = [name for name in others if name not in _ALSO]
        if unknown or sum(name.startswith("pipeline") for name in mesh) != 1 or foreign:
            known = [*signature(PipelineParallel).parameters, *_ALSO] if foreign else _DIMENSIONS
            raise ConfigError(
                f"PipelineParallel({', '.join([f'mesh={dict(mesh)}', *others])}): expected the dimension 'pipeline', "
                "beside it 'data_replicate' for copies, 'data_shard', 'context' and 'expert', 'tensor' with "
                f"parallelize={{...}}, and of ModelParallel's arguments {', '.join(_ALSO)}."
                + did_you_mean(next(iter([*foreign, *unknown]), ""), known),
                code="LT791",
            )
        if isinstance(micro_batches, bool) or not isinstance(micro_batches, int) or micro_batches < 1:
            raise ConfigError(
                f"PipelineParallel(micro_batches={micro_batches!r}): expected a whole number of pieces, 1 or more; "
                "1 is the whole batch.",
                code="LT757",
            )
        counts = [] if layers_per_rank is None else layers_per_rank
        if not isinstance(counts, Sequence) or any(type(count) is not int for count in counts):
            raise ConfigError(
                f"PipelineParallel(layers_per_rank={layers_per_rank!r}): expected a number of layers for each rank, as "
                "in [2, 3].",
                code="LT793",
            )
        if parallelize is not None and tensor_name(dict.fromkeys(mesh, 1)) is None:
            raise ConfigError(
                "PipelineParallel(parallelize=...) splits layers over the dimension 'tensor': write "
                "mesh={'pipeline': 'auto', 'tensor': 2}.",
                code="LT785",
            )
        if others.get("state_dict_type") == "sharded" and not any(name.startswith("data_shard") for name in mesh):
            raise ConfigError(
                f"PipelineParallel(mesh={dict(mesh)}, state_dict_type='sharded'): expected the dimension 'data_shard', "
                "over which layers are in shards. Add it, or take state_dict_type='full', one file.",
                code="LT773",
            )
        check_choice("schedule", schedule, _SCHEDULES, "PipelineParallel")
        super().__init__(
            mesh=mesh,
            parallelize=parallelize,
            launcher=launcher,
            process_group_backend=process_group_backend,
            timeout=timeout,
            step_deadline=step_deadline,
            **{"reshard_after_forward": False, **others},
        )
        self._micro_batches, self._schedule, self._layers_per_rank = micro_batches, schedule, layers_per_rank
        self._held: set[int] = set()

    # ---- place -------------------------------------------------------------------------------------------------------

    @property
    def _pipeline_name(self) -> str:
        return next(name for name in self.mesh_sizes if name.startswith("pipeline"))

    @property
    def _pipeline_group(self) -> ProcessGroup:
        group: ProcessGroup = self.device_mesh.get_group(self._pipeline_name)
        return group

    @property
    def schedule_text(self) -> str:
        pieces, count = self._micro_batches, self.mesh_sizes[self._pipeline_name]
        return (
            f"schedule {self._schedule}: a batch in {pieces} pieces at most; each stage sends as many outputs to the "
            f"next one and gradients back, and is idle for about {count - 1}/{pieces + count - 1} of a step"
        )

    def stages(self, module: nn.Module) -> list[list[str]]:
        count = self.mesh_sizes[self._pipeline_name]
        found: list[list[str]] = [[] for _ in range(count)]
        for path, part in module.named_modules():
            for number, holder in enumerate(self._holders(part, count) if isinstance(part, Pipelined) else ()):
                names = f"{path}.layers.{number}".lstrip(".")
                found[holder] += [f"{names}.{name}" for name, _ in part.layers[number].named_parameters()]
        return found

    def whole_module(self, module: nn.Module) -> nn.Module:
        if isinstance(module, RemoteLayer):
            return module.stands_for[0]
        children = {name: child and self.whole_module(child) for name, child in module._modules.items()}
        if all(child is module._modules[name] for name, child in children.items()):
            return module
        whole = copy.copy(module)
        whole._modules = children
        return whole

    def _lt_check_plan(self, module: nn.Module) -> None:
        if "return_outputs" not in signature(ScheduleGPipe.step).parameters:
            raise ConfigError(
                f"strategy='pipeline': the torch.distributed.pipelining of torch {torch.__version__} is too old. Take "
                "torch 2.13, or strategy='fsdp'.",
                code="LT772",
            )
        if not any(_pipelined_parts(module)):
            raise ConfigError(
                "strategy='pipeline': no part of the module is a Pipelined(layers, loss), whose layers could be spread "
                "over the ranks.",
                code="LT792",
            )

    def check_same_parameters(self, module: nn.Module) -> None:
        if not _has_remote_layers(module):  # not in a second run
            super().check_same_parameters(module)

    def _lt_is_spread(self, module: nn.Module) -> bool:
        return False  # layers are connected in each run, also where they stay as they are

    def _lt_spread(self, module: nn.Module) -> None:
        group = self._pipeline_group
        index, count = dist.get_rank(group), dist.get_world_size(group)
        tensor = tensor_name(self.mesh_sizes)
        again = _has_remote_layers(module) or any(part.placed for part in _pipelined_parts(module))
        if self.parallelize is not None and tensor is not None and not again and not _is_split(module, tensor):
            split_layers(module, self.device_mesh[tensor], self.parallelize, split_loss=False)
        sharded = set() if again else set(self._lt_groups(module))
        reshard(module)
        talking = [name for name, size in self.mesh_sizes.items() if size > 1 and name.startswith(_TALKING)]
        peers = self._alike(*(set(self.mesh_sizes) - set(talking)), like_control=True) if talking else None
        for part in _pipelined_parts(module):
            holders = self._holders(part, count)
            _check_layers(part, module)
            if not again:
                for number, holder in enumerate(holders):
                    self._place_layer(part.layers, number, sharded, keep=holder == index)
            own = part.own_layers()
            if self._shards_layers and not isinstance(own, FSDPModule):
                self._lt_fully_shard(own)
            kind = _SCHEDULES[self._schedule]
            part.connect(StageLink(own, part.loss, group, self.device, self._micro_batches, kind, peers))
            self.group.on_leave(part, Pipelined.disconnect)
        if on_meta(module):
            materialize(module, self.device, self.broadcast_tensors)
        self._lt_brought(module)
        rows = [part.layers for part in _pipelined_parts(module)]
        held = {id(tensor) for layers in rows for tensor in (*layers.parameters(), *layers.buffers())}
        self._share(tensor for tensor in (*module.parameters(), *module.buffers()) if id(tensor) not in held)

    def _holders(self, part: Pipelined, count: int) -> list[int]:
        """Return, for each layer, its rank among a pipeline's ``count`` ranks."""
        even, rest = divmod(len(part.layers), count)
        sizes = self._layers_per_rank or [even + (rank < rest) for rank in range(count)]
        if len(sizes) != count or sum(sizes) != len(part.layers) or min(sizes) < 1:
            raise ConfigError(
                f"PipelineParallel(layers_per_rank={list(sizes)}): expected {count} numbers of at least 1 that add up "
                f"to the {len(part.layers)} layers.",
                code="LT793",
            )
        return [rank for rank, size in enumerate(sizes) for _ in range(size)]

    def _place_layer(
        self, layers: nn.ModuleList, number: int, sharded: Collection[nn.Module], *, keep: bool
    ) -> None:  # fmt: skip
        """Give a layer rank 0's values; a rank that does not keep it holds it no longer than that."""
        layer = layers[number]
        materialize(layer, self.device, self.broadcast_tensors)
        self._lt_brought(layer)
        self._share((*layer.parameters(), *layer.buffers()))
        if not keep:
            layers[number] = RemoteLayer(layer)
        elif self._shards_layers:
            for part in reversed([part for part in layer.modules() if part in sharded]):  # the innermost first
                self._lt_fully_shard(part)

    def _share(self, tensors: Iterable[Tensor]) -> None:
        """Give all ranks rank 0's tensors, and copies of a sharded tensor the first copy's parts."""
        by_names: dict[tuple[str, ...], list[Tensor]] = {}
        for tensor in tensors:
            by_names.setdefault(self._spread_over(tensor), []).append(own_part(tensor))
        for names, found in by_names.items():
            self.broadcast_tensors(found, self._alike(*names) if names else None)

    def _spread_over(self, tensor: Tensor) -> tuple[str, ...]:
        """Return the dimensions of the mesh over which ``tensor`` is spread."""
        if not isinstance(tensor, DTensor):
            return ()
        names = tensor.device_mesh.mesh_dim_names or ("a mesh without names",)
        if not set(names) <= set(self.mesh_sizes):
            raise ConfigError(
                f"strategy='pipeline': a layer of shape {tuple(tensor.shape)} is spread over {', '.join(names)}; "
                f"expected dimensions of the strategy's mesh, {', '.join(self.mesh_sizes)}. Split layers over parts of "
                "self.device_mesh.",
                code="LT797",
            )
        return names

    @property
    def _shards_layers(self) -> bool:
        return any(name.startswith("data_shard") and size > 1 for name, size in self.mesh_sizes.items())

    def _lt_averaged(
        self, module: nn.Module, plain: list[nn.Parameter]
    ) -> list[tuple[ProcessGroup | None, list[nn.Parameter]]]:
        copies = self._alike(self._pipeline_name)
        held = _held(module)
        return [
            (copies, [param for param in plain if id(param) in held]),
            (None, [param for param in plain if id(param) not in held]),
        ]

    def _lt_copies(self, module: nn.Module) -> list[tuple[ProcessGroup, list[nn.Parameter], bool]]:
        """Return the parameters that are spread over ranks of a stage, by the dimensions; all ranks in one order."""
        by_names: dict[tuple[str, ...], list[nn.Parameter]] = {}
        for param in module.parameters():
            if names := self._spread_over(param):
                by_names.setdefault(names, []).append(param)
        everywhere = sorted({names for rank in self.gather_objects(list(by_names)) for names in rank})
        found = []
        for names in everywhere:
            ranks = self._alike(self._pipeline_name, *names)
            tokens = {part_of_tokens(self.mesh_sizes, rank) for rank in dist.get_process_group_ranks(ranks)}
            found.append((ranks, by_names.get(names, []), len(tokens) > 1))
        return found

    def _alike(self, *names: str, like_control: bool = False) -> ProcessGroup:
        """Return the ranks that stand where this one does along ``names``."""
        sizes, found = self.mesh_sizes, dict[int, list[int]]()
        for rank in range(self.world_size):
            found.setdefault(part_of_data(sizes, rank, names).index, []).append(rank)
        return self.group.part(found.values(), like_control=like_control)

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
        try:
            module, optimizers = super().setup(module, make_optimizers, precision)
        except ValueError as error:
            if "no parameters" in str(error) or "empty parameter list" in str(error):
                error.add_note(
                    "strategy='pipeline': a rank holds some layers only, and each optimizer needs a parameter on every "
                    "rank. Take one optimizer with groups: AdamW([{'params': first}, {'params': last}])."
                )
            raise
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
        squares = norm_of(held).to(self.device, torch.float32).square()  # a stage without any has another dtype
        dist.all_reduce(squares, group=self._pipeline_group)
        total = (squares + norm_of(shared).to(self.device).square()).sqrt()
        scale_to((*held, *shared), value, total)
        return total

    # ---- save --------------------------------------------------------------------------------------------------------

    def module_state(self, module: nn.Module) -> dict[str, Any]:
        """Return the whole state on rank 0, each rank's part going by all ranks, one part at a time; or this rank's
        part of it with ``state_dict_type="sharded"``.
        """
        if self.state_dict_type == "sharded":
            return module.state_dict()
        return self._gathered(module, keep=self.rank == 0)

    def full_module_state(self, module: nn.Module) -> dict[str, Any]:
        return self._gathered(module, keep=True)

    def load_module_state(self, module: nn.Module, state: dict[str, Any], strict: bool = True) -> Any:
        elsewhere = set(whole_order(module)) - set(module.state_dict())
        return states.load_module(module, state, self, strict=strict, elsewhere=elsewhere)

    def optimizer_state(self, module: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
        """Return the state on rank 0, or this rank's part, with the numbers of parameters in a module that is whole."""
        mine, groups = self._numbered(module, optimizer)
        numbers = {name: number for number, name in enumerate(name for group in groups for name in group)}
        state = optimizer.state_dict()
        listed = [
            {**group, "params": [numbers[name] for name in names]}
            for group, names in zip(state["param_groups"], groups, strict=True)
        ]
        if self.state_dict_type == "sharded":
            entries = {numbers[mine[index]]: entry for index, entry in state["state"].items()}
        else:
            own = {mine[index]: entry for index, entry in states.whole(state["state"], keep=True).items()}
            found = self._merged(own, keep=self.rank == 0)
            entries = {number: found[name] for name, number in numbers.items() if name in found}
        return {**state, "state": entries, "param_groups": listed}

    def load_optimizer_state(self, module: nn.Module, optimizer: Optimizer, state: dict[str, Any]) -> None:
        mine, groups = self._numbered(module, optimizer)
        names = [name for group in groups for name in group]
        own = optimizer.state_dict()["param_groups"]
        listed = [{**saved, "params": here["params"]} for saved, here in zip(state["param_groups"], own, strict=True)]
        number_of = {name: number for number, name in enumerate(names)}
        states.load_optimizer(
            optimizer, {"state": state["state"], "param_groups": listed}, [number_of[name] for name in mine]
        )

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _gathered(self, module: nn.Module, *, keep: bool) -> dict[str, Any]:
        found = self._merged(states.whole(module.state_dict(), keep=True), keep=keep)
        return {name: found[name] for name in (*whole_order(module), *found) if name in found}

    def _merged(self, own: dict[str, Any], *, keep: bool) -> dict[str, Any]:
        """Return the merged entries of the first pipeline's ranks where ``keep``; they broadcast one by one."""
        found: dict[str, Any] = {}
        sizes = self.mesh_sizes
        others = set(sizes) - {self._pipeline_name}
        for source in range(self.world_size):
            if part_of_data(sizes, source, others).index == 0:
                part = self.broadcast(own if self.rank == source else None, source)
                found |= part if keep else {}
        return found

    def _numbered(self, module: nn.Module, optimizer: Optimizer) -> tuple[list[str], list[list[str]]]:
        """Return the names of an optimizer's parameters here, and of each group's on all ranks, in the order that
        they have in a module that is whole.
        """
        reshard(module)
        name_of = {id(param): plain_name(name) for name, param in module.named_parameters()}
        mine = [[name_of[id(param)] for param in group["params"]] for group in optimizer.param_groups]
        place = {name: number for number, name in enumerate(whole_order(module))}
        everyone = self.gather_objects(mine)
        if len({len(names) for names in everyone}) > 1:
            raise ConfigError(
                f"strategy='pipeline': expected the same groups of the {type(optimizer).__name__} on all ranks, "
                f"received {', '.join(str(len(names)) for names in everyone)} of them. Add a group on every rank, an "
                "empty one where its layers are elsewhere: optimizer.add_param_group({'params': [], ...}).",
                code="LT795",
            )
        groups = [
            sorted({name for rank in ranks for name in rank}, key=place.__getitem__)
            for ranks in zip(*everyone, strict=True)
        ]
        return [name for names in mine for name in names], groups


def _pipelined_parts(module: nn.Module) -> Iterator[Pipelined]:
    return (part for part in module.modules() if isinstance(part, Pipelined))


def _has_remote_layers(module: nn.Module) -> bool:
    return any(isinstance(part, RemoteLayer) for part in module.modules())


def _held(module: nn.Module) -> set[int]:
    """Return the parameters of which each rank of a pipeline has others."""
    return {id(param) for part in _pipelined_parts(module) for param in part.parameters()}


def _is_split(module: nn.Module, name: str) -> bool:
    """Return whether a parameter is spread over the ranks of a dimension already."""
    return any(name in (p.device_mesh.mesh_dim_names or ()) for p in module.parameters() if isinstance(p, DTensor))


def _check_layers(part: Pipelined, module: nn.Module) -> None:
    if isinstance(part.loss, nn.Module) and any(param.requires_grad for param in part.loss.parameters()):
        raise ConfigError(
            "Pipelined: the loss has parameters to train, and only the last rank computes it. Make the trained part of "
            "it the last layer.",
            code="LT799",
        )
    layer_of: dict[int, int] = {}
    for number, layer in enumerate(part.layers):
        for name, param in layer.named_parameters():
            if layer_of.setdefault(id(param), number) != number:
                raise ConfigError(
                    f"Pipelined: {name} of layer {number} is a parameter of layer {layer_of[id(param)]} too, and "
                    "layers may be on different ranks. Give each its own.",
                    code="LT796",
                )
    inside = {*map(id, part.modules()), *layer_of} - {id(part)}
    for outer in set(module.modules()) - set(part.modules()):
        for name, item in (*outer._modules.items(), *outer._parameters.items()):
            if id(item) in inside:
                raise ConfigError(
                    f"Pipelined: {name} of {type(outer).__name__} is in one of its layers too, which other ranks may "
                    "hold. Reach layers through the Pipelined alone, and give other layers parameters of their own.",
                    code="LT796",
                )
