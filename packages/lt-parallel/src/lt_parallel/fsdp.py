"""Fully sharded data parallel (FSDP2): parameters, gradients and optimizer states are spread over the ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from math import prod
from typing import Any, Literal, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from lt_core.arguments import checks_arguments
from lt_core.errors import ConfigError, did_you_mean
from lt_core.launcher import Launcher
from lt_core.plugins import load_name
from lt_core.precision import Precision
from lt_core.strategy import Capabilities
from lt_parallel import states
from lt_parallel.clipping import clip_norm, clip_value
from lt_parallel.groups import (
    Policy,
    buffered_layers,
    carrying_hooks,
    checkpoint_activations,
    chooser,
    is_listed,
    order_prefetch,
    with_forward,
)
from lt_parallel.kinds import by_kind, step_by_kind
from lt_parallel.materialize import materialize, on_meta
from lt_parallel.mesh import part_of_data
from lt_parallel.root import Root, RootHolder, gathering, root_of
from lt_strategies.distributed import Distributed, own_part

__all__ = ["FSDP", "Policy"]

_SHARDING = {"FULL_SHARD": True, "SHARD_GRAD_OP": False}
_STATES = ("full", "sharded")
_RESHARDING: WeakSet[Optimizer] = WeakSet()
_RootHolder = RootHolder  # named by pickles of sharded modules


class Gathering(NamedTuple):
    """How ranks gather and reduce the layers of a sharded module, for :meth:`lt_loops.Trainer.explain`.

    Attributes:
        whole: bytes that a rank holds whole at a time: what is in no group, the group at work and the next one.
        layers: bytes of all layers, in the type in which they are gathered.
        times: how often each batch gathers them.
        each_batch: whether each batch's gradients are reduced, or their sum once.
        shards: ranks that share what is gathered.
        copies: ranks that hold the same shard.
        groups: numbers of the parameters whose gradients are reduced together; none where layers are split too.
    """

    whole: float
    layers: float
    times: int
    each_batch: bool
    shards: int
    copies: int
    groups: list[list[int]]


class FSDP(Distributed):
    """Spreads parameters, gradients and optimizer states over the ranks; layers are gathered when they are needed.

    A module is sharded by ``auto_wrap_policy``, or by the user's own ``fully_shard`` calls in ``configure_model``,
    which may read ``self.device_mesh``. Modules made in ``configure_model`` or ``trainer.init_module()`` take no memory
    until they are sharded.

    Args:
        auto_wrap_policy: which modules are gathered and freed together; by default each item of an nn.ModuleList (the
            blocks of a transformer). All others form one more group.
        sharding_strategy: ``"FULL_SHARD"`` frees parameters after forward and gathers them again for backward;
            ``"SHARD_GRAD_OP"`` keeps them in between: more memory, less communication.
        mixed_precision: ``MixedPrecisionPolicy`` of torch: the types of gathered parameters and reduced gradients. By
            default the parameters' own type; with precision="bf16-mixed" or "16-mixed" layers are gathered in 16 bits
            and gradients reduced in 32, under autocast as elsewhere. Layers with float buffers of their own (BatchNorm)
            are gathered in 32 bits.
        activation_checkpointing_policy: which modules compute their activations again in backward.
        reshard_after_forward: torch's own argument, in place of ``sharding_strategy``: a number shards over that many
            ranks between forward and backward, usually of one node.
        prefetch: how many groups ahead of the one at work are gathered, in forward and in backward; by default torch's
            own choice. Needs groups that are called in the order in which they stand.
        compile_blocks: compile each group by itself, which takes the time of one where they are alike; a dict holds
            arguments of ``torch.compile``.
        sync_each_batch: reduce the gradients of each of the batches that ``accumulate_grad_batches`` adds up: a rank
            holds its shard of them only. False reduces their sum, once: less communication, and each rank holds all
            gradients whole meanwhile. Ranks that hold copies of a shard average them once either way.
        cpu_offload: keep shards in the CPU's memory; a ``CPUOffloadPolicy``, or True.
        state_dict_type: ``"full"``: a checkpoint is one file that loads everywhere; ``"sharded"``: a folder to which
            every rank writes its part, for models that no single process can hold.
        device_mesh: sizes (nodes, ranks of a node) of a mesh: sharded within the last, copied over the first; by
            default all ranks shard.
        launcher: see :class:`~lt_strategies.distributed.Distributed`, as for the others.
        process_group_backend: torch's backend.
        timeout: how long a rank waits for the others in a collective.
        step_deadline: seconds without a batch done after which a rank counts as hung, six times as many until its
            first batch is done; None for never.
    """

    name = "fsdp"
    capabilities = Capabilities(
        sharded_parameters=True,
        forward_needs_all_ranks=True,
        evaluation_needs_all_ranks=True,
        sync_batchnorm=True,
        inference_mode=False,
        mesh=True,
    )

    @checks_arguments
    def __init__(
        self,
        *,
        auto_wrap_policy: Policy | None = None,
        sharding_strategy: Literal["FULL_SHARD", "SHARD_GRAD_OP"] = "FULL_SHARD",
        mixed_precision: MixedPrecisionPolicy | None = None,
        activation_checkpointing_policy: Policy | None = None,
        reshard_after_forward: bool | int | None = None,
        prefetch: int = 0,
        compile_blocks: bool | dict[str, Any] = False,
        sync_each_batch: bool = True,
        cpu_offload: CPUOffloadPolicy | bool = False,
        state_dict_type: Literal["full", "sharded"] = "full",
        device_mesh: tuple[int, int] | None = None,
        launcher: str | Launcher | None = "script",
        process_group_backend: str | None = None,
        timeout: timedelta | float = timedelta(minutes=10),
        step_deadline: float | None = 600.0,
    ) -> None:
        super().__init__(
            launcher=launcher,
            process_group_backend=process_group_backend,
            timeout=timeout,
            step_deadline=step_deadline,
        )
        check_choice("sharding_strategy", sharding_strategy, _SHARDING)
        check_choice("state_dict_type", state_dict_type, _STATES)
        self.auto_wrap_policy = auto_wrap_policy
        self.activation_checkpointing_policy = activation_checkpointing_policy
        self.state_dict_type = state_dict_type
        self.capabilities = replace(self.capabilities, sharded_checkpoints=state_dict_type == "sharded")
        self._lt_mesh_shape = device_mesh
        reshard = _SHARDING[sharding_strategy] if reshard_after_forward is None else reshard_after_forward
        self._lt_arguments: dict[str, Any] = {"reshard_after_forward": reshard}
        self._lt_prefetch, self._lt_sync_each_batch = prefetch, sync_each_batch
        self._lt_compile = {} if compile_blocks is True else compile_blocks
        self._lt_mixed_precision = mixed_precision
        if cpu_offload:
            pinned = CPUOffloadPolicy(pin_memory=torch.cuda.device_count() > 0)
            self._lt_arguments["offload_policy"] = pinned if cpu_offload is True else cpu_offload
        self._lt_mesh: DeviceMesh | None = None
        self._lt_shared: list[tuple[ProcessGroup | None, list[nn.Parameter]]] = []
        self._lt_syncs = True

    # ---- place -------------------------------------------------------------------------------------------------------

    @property
    def device_mesh(self) -> DeviceMesh:
        """The ranks as a mesh; ``configure_model`` reads it for ``fully_shard`` calls of its own."""
        if self._lt_mesh is None:
            self._lt_mesh = self._lt_made_mesh()
            self.group.on_leave(self, FSDP._lt_drop_group)
        return self._lt_mesh

    @property
    def mesh_sizes(self) -> dict[str, int]:
        if self._lt_mesh_shape is None:
            return {"data_parallel": self.world_size}
        copies, shards = self._lt_mesh_shape
        if copies * shards != self.world_size:
            raise ConfigError(
                f"FSDP(device_mesh={self._lt_mesh_shape}) holds {copies * shards} ranks, but the job has "
                f"{self.world_size}. Their product must be devices x num_nodes.",
                code="LT740",
            )
        return {"replicate": copies, "shard": shards}

    def init_context(self) -> AbstractContextManager[Any]:
        """Return torch's meta device: modules made there take no memory until :meth:`setup` shards them."""
        return torch.device("meta")

    def setup(
        self, module: nn.Module, make_optimizers: Callable[[], list[Optimizer]] | None, precision: Precision
    ) -> tuple[nn.Module, list[Optimizer]]:
        """Shard the module; one that is sharded already is left as it is."""
        # autograd starts its threads by now: after DTensor's fake tensors it would find a GPU, and no fork could train
        torch.zeros((), requires_grad=True).backward()  # type: ignore[no-untyped-call]
        precision.open(self.device)
        narrow = precision.compute_dtype if self._lt_mixed_precision is None else None
        self._lt_arguments["mp_policy"] = self._lt_mixed_precision or MixedPrecisionPolicy(
            param_dtype=narrow,
            reduce_dtype=None if narrow is None else torch.float32,
            cast_forward_inputs=False,  # autocast does the casting; targets and timesteps stay as they are
        )
        module = self.convert_sync_batchnorm(module)
        if not self._lt_is_spread(module):
            self.check_same_parameters(module)
            self._lt_spread(precision.convert_module(module))
            if _sharded_parts(module):
                module.__dict__.setdefault("_gathered_in", narrow)
        else:  # by the user's own calls in configure_model, or in an earlier run
            self._lt_place_sharded(module, precision)
        gathered = module.__dict__.get("_gathered_in")
        # in evaluation the gathered weights meet its autocast, or none
        evaluates = getattr(getattr(module, "_trainer", None), "eval_precision_plugin", precision)
        for used in (precision, evaluates) if gathered is not None else ():
            if used.compute_dtype != gathered:
                raise ConfigError(
                    f"precision={used.name!r}: the module's layers are gathered in {gathered}, in evaluation and in "
                    "later runs too. Take one precision for all of them, make the module anew and load its weights, or "
                    "give all runs FSDP(mixed_precision=MixedPrecisionPolicy()), which gathers in the parameters' own "
                    "type.",
                    code="LT767",
                )
        states.check_gathers(module)
        plain = [p for p in module.parameters() if not isinstance(p, DTensor)]
        self._lt_shared = [(ranks, params) for ranks, params, reduces in self._lt_copies(module) if reduces]
        if plain:
            self._lt_shared += self._lt_averaged(module, plain)
        self.group.on_leave(self, FSDP._lt_drop_group)
        optimizers = make_optimizers() if make_optimizers is not None else []
        reshard = partial(_reshard, _sharded_parts(module))
        for optimizer in optimizers:
            step_by_kind(optimizer)
            if optimizer not in _RESHARDING:  # a fit that goes on has those of the last one
                optimizer.register_step_post_hook(reshard)
                _RESHARDING.add(optimizer)
            if precision.scales and len(by_kind([p for group in optimizer.param_groups for p in group["params"]])) > 1:
                raise ConfigError(
                    f"precision={precision.name!r}: torch's scaler takes all gradients of an optimizer at a time, and "
                    f"parameters of {type(optimizer).__name__} are spread over several meshes, or some over none. Take "
                    "precision='bf16-mixed', or shard the whole ones: an auto_wrap_policy, 'data_shard' in the mesh.",
                    code="LT749",
                )
        return module, optimizers

    def bind(self, module: nn.Module, method: str) -> Callable[..., Any]:
        root = root_of(module)
        if root is not None:
            return partial(root, method)
        if isinstance(module, FSDPModule):
            return gathering(module, method)
        return super().bind(module, method)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_lt_mesh": None, "_lt_shared": []}

    def gathering(self, module: nn.Module, narrow: torch.dtype | None) -> Gathering:
        """Return how a module's layers would be gathered; from now on it computes activations again as was asked for.

        Args:
            module: whole, on any device.
            narrow: the precision's type of gathered layers; None: their own.
        """
        dtype = narrow if self._lt_mixed_precision is None else self._lt_mixed_precision.param_dtype
        parts = [*reversed(self._lt_chosen(module)), module]
        left = {param: number for number, param in enumerate(module.parameters())}
        numbers = [[left.pop(param) for param in part.parameters() if param in left] for part in parts]
        params = list(module.parameters())
        *groups, outer = (sum(params[n].numel() * (dtype or params[n].dtype).itemsize for n in own) for own in numbers)
        reshards = self._lt_arguments["reshard_after_forward"]
        sizes = self.mesh_sizes
        copies = sizes.get("replicate", sizes.get("data_replicate", 1))
        split = prod(size for name, size in sizes.items() if name.startswith("tensor"))
        spread = [name for name in sizes if name.startswith(("data", "shard")) and "replicate" not in name]
        shards = prod(sizes[name] for name in spread)
        layers = (sum(groups) + outer) / split
        return Gathering(
            whole=(outer + sum(sorted(groups)[-2:])) / split if reshards else layers,
            layers=layers,
            times=2 if reshards else 1,
            each_batch=self._lt_sync_each_batch,
            shards=shards,
            copies=copies,
            groups=numbers if split == 1 else [],
        )

    # ---- step --------------------------------------------------------------------------------------------------------

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Compute gradients; where several ranks hold the same they are averaged here, the others on the way."""
        super().backward(loss, *args, **kwargs)
        if (inputs := kwargs.get("inputs")) is not None and all(p.grad is None for p in inputs):
            raise ConfigError(
                "backward(inputs=...) reached none of these parameters: layers of shards are gathered before they are "
                "used, and only what was gathered is in the graph. Leave inputs= out, and keep the others' gradients "
                "away by self.toggle_optimizer(optimizer), or by its zero_grad() before its own backward.",
                code="LT778",
            )
        if self._lt_syncs:
            for ranks, shared in self._lt_shared:
                self.average_gradients(shared, ranks)

    def reduce_gradients(self, params: Iterable[nn.Parameter]) -> None:
        """Average gradients of which several ranks hold the same part; others are reduced during each backward."""
        chosen = set(map(id, params))
        for ranks, shared in self._lt_shared:
            self.average_gradients([p for p in shared if id(p) in chosen], ranks)

    @contextmanager
    def accumulating(self, module: nn.Module, last: bool) -> Iterator[None]:
        sharded = _sharded_parts(module)
        for part in sharded:
            if self._lt_sync_each_batch:
                part.set_requires_all_reduce(last, recurse=False)
            else:
                part.set_requires_gradient_sync(last, recurse=False)
        self._lt_syncs = last
        try:
            yield
        finally:
            self._lt_syncs = True
            for part in sharded:
                part.set_requires_gradient_sync(True, recurse=False)

    def clip_gradients(self, params: Iterable[nn.Parameter], value: float, algorithm: str = "norm") -> Tensor | None:
        if algorithm == "norm":
            return clip_norm(params, value)
        clip_value(params, value)
        return None

    # ---- save --------------------------------------------------------------------------------------------------------

    def module_state(self, module: nn.Module) -> dict[str, Any]:
        """Return the state: the whole on rank 0, or each rank's shards with ``state_dict_type="sharded"``."""
        state = module.state_dict()
        return state if self.state_dict_type == "sharded" else states.whole(state, keep=self.rank == 0)

    def full_module_state(self, module: nn.Module) -> dict[str, Any]:
        state: dict[str, Any] = states.whole(module.state_dict(), keep=True)
        return state

    def load_module_state(self, module: nn.Module, state: dict[str, Any], strict: bool = True) -> Any:
        return states.load_module(module, state, self, strict=strict)

    def optimizer_state(self, module: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
        state = optimizer.state_dict()
        if self.state_dict_type == "sharded":
            return state
        return {**state, "state": states.whole(state["state"], keep=self.rank == 0)}

    def load_optimizer_state(self, module: nn.Module, optimizer: Optimizer, state: dict[str, Any]) -> None:
        states.load_optimizer(optimizer, state)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _lt_made_mesh(self) -> DeviceMesh:
        sizes = self.mesh_sizes
        return init_device_mesh(self.device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))

    def _lt_drop_group(self) -> None:
        """Drop the references to the process group: the mesh, and the groups of copies."""
        self._lt_mesh = None
        self._lt_shared.clear()

    def _lt_spread(self, module: nn.Module) -> None:
        """Shard group by group: only one group is whole at a time, also where it is made only now."""
        groups = self._lt_groups(module)
        rooted = getattr(module, "automatic_optimization", True)
        # steps may be taken inside of training_step, where a root around it would hold everything gathered
        outer = [] if rooted else with_forward(module)

        def shard(part: nn.Module) -> None:
            left = part in outer and not all(isinstance(p, DTensor) for p in part.parameters())
            if (part in groups or left) and not isinstance(part, FSDPModule):
                self._lt_shard_group(part, part)

        self._lt_materialize(module, shard)
        order_prefetch(groups, self._lt_prefetch)
        if rooted:
            root = Root(module)
            self._lt_shard_group(root, module)
            module.__dict__["_fsdp_root"] = RootHolder(root)
        else:
            self._lt_place_sharded(module, Precision())

    def _lt_groups(self, module: nn.Module) -> list[nn.Module]:
        """Return the groups, which compute activations again and are compiled as was asked for."""
        groups = self._lt_chosen(module)
        if isinstance(self._lt_compile, dict):
            for part in groups:
                part.compile(**self._lt_compile)
        return groups

    def _lt_chosen(self, module: nn.Module) -> list[nn.Module]:
        """Return the groups, outer ones first, which compute activations again as was asked for."""
        if self.activation_checkpointing_policy is not None:
            checkpoint_activations(module, chooser(self.activation_checkpointing_policy))
        choose = is_listed(module) if self.auto_wrap_policy is None else chooser(self.auto_wrap_policy)
        return [part for part in module.modules() if part is not module and choose(part)]

    def _lt_place_sharded(self, module: nn.Module, precision: Precision) -> None:
        """Allocate meta tensors, and move tensors that are not sharded to the device."""
        if on_meta(module):
            precision.convert_module(module)
            materialize(module, self.device, self.broadcast_tensors)
        self.broadcast_tensors(self._lt_brought(module))
        for ranks, params, _ in self._lt_copies(module):
            self.broadcast_tensors(map(own_part, params), ranks)

    def _lt_brought(self, module: nn.Module) -> list[Tensor]:
        """Move tensors that are not sharded to the device; return them. ``to()`` would remake shards without hooks."""
        plain = [t for t in (*module.parameters(), *module.buffers()) if not isinstance(t, DTensor)]
        for tensor in plain:
            tensor.data = tensor.data.to(self.device)
        return plain

    def _lt_is_spread(self, module: nn.Module) -> bool:
        return is_sharded(module)

    def _lt_copies(self, module: nn.Module) -> list[tuple[ProcessGroup, list[nn.Parameter], bool]]:
        """Return the parameters that are spread over some of the ranks only, with the ranks that hold the same part as
        this one, and whether these train on other tokens than this one: then nobody else averages their gradients.
        """
        by_mesh: dict[DeviceMesh, list[nn.Parameter]] = {}
        for param in module.parameters():
            if isinstance(param, DTensor) and param.device_mesh.size() < self.world_size:
                by_mesh.setdefault(param.device_mesh, []).append(param)
        if not any(self.gather_objects(bool(by_mesh))):
            return []
        everyone = self._lt_places(list(by_mesh))
        found = []
        for number, params in enumerate(by_mesh.values()):
            holders: dict[int, list[int]] = {}
            for rank, (parts, _) in enumerate(everyone):
                holders.setdefault(parts[number], []).append(rank)
            mine = holders[everyone[self.rank][0][number]]
            found.append((self.group.part(holders.values()), params, len({everyone[r][1] for r in mine}) > 1))
        return found

    def _lt_places(self, meshes: list[DeviceMesh]) -> list[tuple[list[int], int]]:
        """Return each rank's part of the parameters of each mesh, and its part of the tokens."""
        sizes = self.mesh_sizes
        names = [tuple(name for name in sizes if name in (mesh.mesh_dim_names or ())) for mesh in meshes]
        pairs = zip(names, meshes, strict=True)
        if all(own == mesh.mesh_dim_names and self.device_mesh[own] == mesh for own, mesh in pairs):
            return [  # without a question, which ranks that are simulated could not answer
                ([part_of_data(sizes, rank, own).index for own in names], self._lt_part_of_tokens(rank))
                for rank in range(self.world_size)
            ]
        parts = [mesh.mesh.flatten().tolist().index(self.rank) for mesh in meshes]
        return self.gather_objects((parts, self._lt_part_of_tokens(self.rank)))

    def _lt_averaged(
        self, module: nn.Module, plain: list[nn.Parameter]
    ) -> list[tuple[ProcessGroup | None, list[nn.Parameter]]]:
        """Return over which ranks the gradients of parameters that are not spread are averaged; None: all."""
        return [(None, plain)]

    def _lt_part_of_tokens(self, rank: int) -> int:
        return rank

    @property
    def _lt_stays(self) -> torch.device:
        """Where parameters are between two uses."""
        return torch.device("cpu") if "offload_policy" in self._lt_arguments else self.device

    def _lt_materialize(self, module: nn.Module, end: Callable[[nn.Module], None]) -> None:
        spread = is_sharded(module)  # layers split by a plan are cut from the same whole on all ranks
        materialize(module, self._lt_stays, self.broadcast_tensors if spread else lambda tensors: None, end)

    def _lt_shard_group(self, group: nn.Module, module: nn.Module) -> None:
        module.to(self._lt_stays)
        self.broadcast_tensors(t for t in (*module.parameters(), *module.buffers()) if not isinstance(t, DTensor))
        self._lt_fully_shard(group)

    def _lt_fully_shard(self, group: nn.Module) -> None:
        """Shard ``group``; its layers with float buffers are one more group, which keeps the parameters' own type."""
        if self._lt_mixed_precision is None and (buffered := buffered_layers(group)):
            with carrying_hooks(buffered):
                own_type = {**self._lt_arguments, "mp_policy": MixedPrecisionPolicy(cast_forward_inputs=False)}
                fully_shard(buffered, mesh=self._lt_shard_mesh, **own_type)
        with carrying_hooks([group]):
            fully_shard(group, mesh=self._lt_shard_mesh, **self._lt_arguments)

    @property
    def _lt_shard_mesh(self) -> DeviceMesh:
        """The ranks over which groups are sharded."""
        return self.device_mesh


def _sharded_parts(module: nn.Module) -> list[FSDPModule]:
    return [part for part in (root_of(module) or module).modules() if isinstance(part, FSDPModule)]


def _reshard(parts: list[FSDPModule], *_: Any) -> None:
    """Let go of weights from before a step, which a network still has whose last forward had no backward."""
    for part in parts:
        part.reshard()


def is_sharded(module: nn.Module) -> bool:
    """Return whether a parameter of the module is spread over ranks already."""
    return any(isinstance(param, DTensor) for param in module.parameters())


def check_choice(name: str, given: Any, choices: Iterable[str], owner: str = "FSDP") -> None:
    if given not in choices:
        known = ", ".join(map(repr, choices))
        raise ConfigError(
            f"{owner}({name}={given!r}): expected one of {known}.{did_you_mean(str(given), choices)}", code="LT742"
        )


def __getattr__(name: str) -> Any:  # it was here once
    return load_name(__name__, {"ModelParallel": "lt_parallel.model_parallel"}, name)
