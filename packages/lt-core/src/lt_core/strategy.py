"""Strategies: placing, stepping, talking and saving, with a default for one device in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core import plugins
from lt_core.accelerator import Accelerator, open_device
from lt_core.batch import move_to_device
from lt_core.checkpoint import CheckpointIO, SupportsShards, is_remote, need_shards, shards_of
from lt_core.environment import Environment
from lt_core.errors import ConfigError, counterpart
from lt_core.interface import Interface
from lt_core.launcher import Launcher, RunResult
from lt_core.precision import Precision
from lt_core.ranks import Ranks

__all__ = ["Capabilities", "Placement", "Shard", "SingleDevice", "Strategy", "SupportsMesh", "SupportsStages"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """The properties of a strategy that loops read, in place of its class or name.

    Attributes:
        sharded_parameters: each rank holds only a part of the parameters, also outside the step.
        forward_needs_all_ranks: a forward of one rank waits for the others (FSDP, tensor parallel).
        evaluation_needs_all_ranks: the same in evaluation: ranks without samples take part with masked batches.
        owns_accumulation: the strategy accumulates by itself; the loop calls every micro-batch as a full one.
        owns_zero_grad: the strategy clears gradients by itself.
        returns_results: the run happens in processes that end with it (see ``Launcher.returns_results``).
        lock_step: ranks take the same number of steps together, never differing by more than one.
        syncs_in_forward: gradients are reduced by a wrapper around the step that :meth:`Strategy.bind` returns, during
            one backward (DDP). Plans with several backwards call the module directly and ``reduce_gradients``.
        synchronous: after each step all ranks hold the same parameters, from one step on all ranks' batches. False
            for decentralised strategies, whose replicas differ between two synchronisations.
        lossy: messages between ranks are compressed or quantized, so that results only approximate the results of one
            process.
        sync_batchnorm: batch norm can be over the batches of all ranks (``Trainer(sync_batchnorm=True)``).
        lazy_execution: operations are recorded and run in :meth:`Strategy.batch_done` (XLA), so that several batches
            can be run as one.
        steps_per_execution: training batches that are run as one program; more than 1 with ``lazy_execution`` alone.
        inference_mode: evaluation outside ``fit`` can run under ``torch.inference_mode()``; elsewhere, and inside
            ``fit``, it runs under ``no_grad``.
        sharded_checkpoints: every rank writes its part of a checkpoint, by a CheckpointIO that
            :class:`~lt_core.checkpoint.SupportsShards`.
        mesh: the strategy is a :class:`SupportsMesh`; :meth:`Strategy.place` sets it for a class that defines a
            ``device_mesh``.
    """

    sharded_parameters: bool = False
    forward_needs_all_ranks: bool = False
    evaluation_needs_all_ranks: bool = False
    owns_accumulation: bool = False
    owns_zero_grad: bool = False
    returns_results: bool = False
    lock_step: bool = True
    syncs_in_forward: bool = False
    synchronous: bool = True
    lossy: bool = False
    sync_batchnorm: bool = False
    lazy_execution: bool = False
    steps_per_execution: int = 1
    inference_mode: bool = True
    sharded_checkpoints: bool = False
    mesh: bool = False

    @property
    def exact(self) -> bool:
        """Whether a run ends with the numbers of one process on all ranks' batches, up to rounding."""
        return self.synchronous and not self.lossy


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """The devices and nodes of a Trainer, and its environment.

    Attributes:
        accelerator: the kind of device.
        devices: indices on this node, one for each of its processes; shape ``(local_world_size,)``.
        num_nodes: nodes in the job.
        environment: who this process is, as found outside (torchrun, SLURM...) or the default of one process.
        launcher: who starts the other processes, already an object; None where the strategy needs none.
        sync_batchnorm: ``Trainer(sync_batchnorm=...)``: batch norm over the batches of all ranks.
    """

    accelerator: Accelerator = field(default_factory=Accelerator)
    devices: tuple[int, ...] = (0,)
    num_nodes: int = 1
    environment: Environment = field(default_factory=Environment)
    launcher: Launcher | None = None
    sync_batchnorm: bool = False


class Shard(NamedTuple):
    """Which part of the data this process reads: part ``index`` of ``count``."""

    index: int = 0  # type: ignore[assignment]  # hides tuple.index
    count: int = 1  # type: ignore[assignment]


class _Names(Ranks):
    """Names of the 2.x API that users' modules read on ``trainer.strategy``; no strategy defines them."""

    @final
    @property
    def root_device(self) -> torch.device:
        """:attr:`device`."""
        return self.device

    @final
    @property
    def global_rank(self) -> int:
        """:attr:`rank`."""
        return self.rank

    @final
    @property
    def is_global_zero(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    @final
    def reduce(self, tensor: Tensor, group: Any = None, reduce_op: str = "mean") -> Tensor:
        """Return ``all_reduce`` of ``tensor``."""
        return self.all_reduce(tensor, reduce_op.lower().replace("avg", "mean"))

    @final
    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:  # noqa: A002  (the name of 2.x)
        """Return whether all ranks, or with ``all=False`` any of them, decided so."""
        votes = self.gather_objects(bool(decision))
        return bool(min(votes) if all else max(votes))

    if not TYPE_CHECKING:  # type checkers still find misspelt attributes

        def __getattr__(self, name: str) -> Any:
            """Raise an AttributeError that names the Trainer's attribute for one of the 2.x API."""
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}.{counterpart('Strategy', name)}",
                name=name,
                obj=self,
            )


class Strategy(_Names, Interface):
    """Runs on one device in this process. A strategy for more overrides the members that differ, here and of
    :class:`Ranks`.

    The Trainer owns module, optimizers, schedulers, precision and progress; a strategy never sees the Trainer. Its
    life: ``place`` (in ``Trainer.__init__``), ``launch`` (for each run), then inside each process ``open``,
    ``load_checkpoint`` where a run resumes, ``setup``, ``bind``, the members of the step, ``close``. A new member
    always comes with a default.

    A strategy is found by an entry point in ``lt.strategies``, a class or a function that returns an instance without
    arguments; users may also pass an instance.

    Attributes:
        capabilities: the properties that loops read.
        launcher: who starts the processes: a name from ``lt.launchers``, an object, or None (this process only).
            The Trainer turns a name into an object and gives it back in :meth:`place`.
    """

    name: str = "single"
    capabilities: Capabilities = Capabilities()
    launcher: str | Launcher | None = None
    placement: Placement = Placement()

    # ---- place -------------------------------------------------------------------------------------------------------

    def place(self, placement: Placement) -> None:
        """Take over the Trainer's placement. Called once, before any launch; allocate nothing here.

        Raises:
            ConfigError: when this strategy cannot run there (here: more than one device), or when the
                environment has started other ranks than the arguments ask for.
        """
        environment, here, nodes = placement.environment, len(placement.devices), placement.num_nodes
        asked = here * nodes
        if asked > 1 and self.one_process:
            raise ConfigError(
                f"strategy={self.name!r} runs on one device, but devices={list(placement.devices)} and "
                f"num_nodes={nodes} ask for {asked}. Take strategy='ddp', or devices=1.",
                code="LT121",
            )
        # it may not know its nodes: then the product has to do
        same = not environment.num_nodes and asked == environment.world_size
        same = same or (here, nodes) == (environment.local_world_size, environment.nodes)
        if environment.processes_exist and not same and not self.one_process:  # some would wait for ever
            ways = [f"devices={environment.local_world_size}"] if here != environment.local_world_size else []
            ways += [f"num_nodes={environment.nodes}"] if nodes != environment.nodes else []
            raise ConfigError(
                f"strategy={self.name!r}: devices={here} and num_nodes={nodes} ask for {asked} processes, but "
                f"according to {environment.name} the job has {environment.world_size} "
                f"({environment.local_world_size} on this node, nodes: {environment.nodes}). Take "
                f"{' and '.join(ways)}, or leave devices and num_nodes out: then the job's numbers count, and "
                "metrics are those of one process. With strategy='single' each process runs alone.",
                code="LT706",
            )
        if placement.sync_batchnorm and asked > 1 and not self.capabilities.sync_batchnorm:
            raise ConfigError(
                f"sync_batchnorm=True: strategy={self.name!r} has no batch norm over the batches of all ranks. Take "
                "strategy='ddp', or sync_batchnorm=False.",
                code="LT125",
            )
        self.placement = placement
        self.environment = Environment() if self.one_process and environment.world_size > 1 else environment
        if placement.launcher is not None:
            self.launcher = placement.launcher
        if hasattr(type(self), "device_mesh") and not self.capabilities.mesh:
            self.capabilities = replace(self.capabilities, mesh=True)
        if self.world_size > 1 and not self.environment.processes_exist and isinstance(self.launcher, Launcher):
            self.capabilities = replace(self.capabilities, returns_results=self.launcher.returns_results)

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        place = self.placement
        return place.accelerator.torch_device(place.devices[self.local_rank % len(place.devices)])

    @property
    def num_nodes(self) -> int:
        """Nodes in the job. Before the launch: as many as there will be."""
        return max(self.placement.num_nodes, self.environment.nodes)

    @property
    def data_shard(self) -> Shard:
        """Which part of the data this process reads."""
        return Shard(self.rank % self.world_size, self.world_size)

    def launch(self, fn: Callable[..., RunResult], *args: Any) -> RunResult:
        """Call ``fn(*args)`` on every rank, by the launcher where there is one, and return rank 0's result."""
        if isinstance(self.launcher, Launcher):
            return self.launcher.launch(fn, *args, strategy=self)
        return fn(*args)

    def open(self) -> None:
        """Enter the job in this process: current device, process group. May be called again; then does nothing."""
        open_device(self.placement.accelerator, self.device)

    def close(self, error: BaseException | None = None) -> None:
        """Leave a run; with ``error``, let the other ranks know, so that none waits for this one.

        Communication and saving go on working until the next :meth:`setup`: a user may call
        ``trainer.save_checkpoint`` after ``fit``.
        """

    def init_context(self) -> AbstractContextManager[Any]:
        """Return the context for ``configure_model`` and ``trainer.init_module()``: default device, or meta."""
        return torch.device(self.device) if self.device.type != "cpu" else nullcontext()

    def setup(
        self, module: nn.Module, make_optimizers: Callable[[], list[Optimizer]] | None, precision: Precision
    ) -> tuple[nn.Module, list[Optimizer]]:
        """Place the module and make its optimizers over the placed parameters.

        Args:
            module: the user's module.
            make_optimizers: makes the optimizers; to be called once, when the parameters are where they will stay.
                None in evaluation.
            precision: converts the module.

        Returns:
            The module that the loops use (the same object wherever possible) and the optimizers.
        """
        precision.open(self.device)
        module = precision.convert_module(module)
        module.to(self.device)  # an override may forget to return the module
        return module, make_optimizers() if make_optimizers is not None else []

    def bind(self, module: nn.Module, method: str) -> Callable[..., Any]:
        """Return the callable of the loop for ``method`` (``"training_step"``, ``"validation_step"``...).

        On one device this is the module's own bound method, so that there is no frame in between.
        """
        return getattr(module, method)  # type: ignore[no-any-return]

    def to_device(self, batch: Any) -> Any:
        """Return the batch on this process's device; any nesting of containers."""
        return move_to_device(batch, self.device)

    # ---- step --------------------------------------------------------------------------------------------------------

    def accumulating(self, module: nn.Module, last: bool) -> AbstractContextManager[Any]:
        """Return the context of one micro-batch; gradients need no reducing before the window's ``last`` one."""
        return nullcontext()

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Compute gradients of ``loss``, shape ``()``; after a window's last micro-batch they are reduced.

        Further arguments go to ``Tensor.backward``: ``inputs=`` where several optimizers have a loss each,
        ``retain_graph=`` from a user's ``manual_backward``.
        """
        loss.backward(*args, **kwargs)  # type: ignore[no-untyped-call]

    def reduce_gradients(self, params: Iterable[nn.Parameter]) -> None:
        """Average the gradients of ``params`` over the ranks, for plans that do not go through the wrapper."""

    def clip_gradients(self, params: Iterable[nn.Parameter], value: float, algorithm: str = "norm") -> Tensor | None:
        """Clip in place by total ``"norm"`` or by ``"value"``; return the norm before clipping, shape ``()``, or
        None.
        """
        if algorithm == "value":
            nn.utils.clip_grad_value_(params, value)
            return None
        return nn.utils.clip_grad_norm_(params, value)

    def optimizer_step(self, optimizer: Optimizer, closure: Callable[[], Any] | None = None) -> bool:
        """Take one step. Return False for "not yet": then counters and schedulers stay where they are."""
        optimizer.step(closure=closure) if closure is not None else optimizer.step()
        return True

    def batch_done(self, phase: str) -> None:
        """Called after each batch of every phase (``"train"``, ``"validate"``, ``"test"``, ``"predict"``); of a
        strategy with ``lazy_execution`` in training after each group of ``steps_per_execution`` batches.

        An override need not call this one: lt's loops speak to the supervisor themselves, it is for loops by hand.
        """
        self.supervisor.batch_done(phase)

    # ---- save --------------------------------------------------------------------------------------------------------

    def module_state(self, module: nn.Module) -> dict[str, Any]:
        """Return the module's state dict as it goes into a checkpoint; called on every rank."""
        return module.state_dict()

    def full_module_state(self, module: nn.Module) -> dict[str, Any]:
        """Return the whole module's state dict on the CPU, as a plain module loads it; called on every rank."""
        return {
            key: value.detach().cpu() if isinstance(value, Tensor) else value
            for key, value in module.state_dict().items()
        }

    def load_module_state(self, module: nn.Module, state: dict[str, Any], strict: bool = True) -> Any:
        """Load a state of :meth:`module_state` (or any full state dict).

        Called after :meth:`setup` where ``capabilities.sharded_parameters``; a module that is whole on each rank has
        its weights loaded before :meth:`setup`.
        """
        return module.load_state_dict(state, strict=strict)

    def optimizer_state(self, module: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
        """Return the optimizer's state dict as it goes into a checkpoint; called on every rank."""
        return optimizer.state_dict()

    def load_optimizer_state(self, module: nn.Module, optimizer: Optimizer, state: dict[str, Any]) -> None:
        """Load a state of :meth:`optimizer_state`."""
        optimizer.load_state_dict(state)

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's state beyond module and optimizers for an exact resume.

        Plain data and tensors, which need not be alike on all ranks: steps since replicas last met, replicas that
        differ, errors that a compression feeds back. Called on every rank at each save of a training run.
        """
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore this rank's state of :meth:`state_dict`; called after :meth:`setup`, when module and
        optimizers have their states.

        Not called where there was none, or where the run was saved on another number of ranks (a warning says so).
        """

    def save_checkpoint(self, io: CheckpointIO, tree: dict[str, Any], path: str | PathLike[str]) -> None:
        """Write ``tree`` to ``path``; called on every rank. Rank 0 writes, or each a part (``sharded_checkpoints``)."""
        if self.capabilities.sharded_checkpoints:
            need_shards(io).save_shards(tree, path, self)
        elif self.rank == 0:
            io.save_checkpoint(tree, path)

    def load_checkpoint(self, io: CheckpointIO, path: str | PathLike[str], *, trusted: bool = False) -> dict[str, Any]:
        """Read the tree at ``path``; called on every rank. A folder of shards is read whole where parameters are."""
        shards = self._lt_shards(io, path)
        if shards is None or not self.capabilities.sharded_parameters:
            return (shards or io).load_checkpoint(path, map_location="cpu", trusted=trusted)
        return shards.load_shards(path, self, trusted=trusted)

    def verify_checkpoint(self, io: CheckpointIO, path: str | PathLike[str]) -> None:
        """Return if the checkpoint at ``path`` is complete and undamaged; called in one process, before the launch.

        Raises:
            CheckpointError: path, reason, way out.
        """
        (self._lt_shards(io, path) or io).verify(path)

    def remove_checkpoint(self, io: CheckpointIO, path: str | PathLike[str]) -> None:
        """Delete the checkpoint at ``path``; called on every rank, by default only rank 0 deletes."""
        if self.rank == 0:
            (self._lt_shards(io, path) or io).remove_checkpoint(path)

    def _lt_shards(self, io: CheckpointIO, path: str | PathLike[str]) -> SupportsShards | None:
        sharded = self.capabilities.sharded_parameters or (not is_remote(path) and Path(path).is_dir())
        return shards_of(io) if sharded else None


class SupportsMesh(Protocol):
    """A strategy with ``capabilities.mesh``: its ranks form a mesh, perhaps of several dimensions."""

    @property
    def device_mesh(self) -> Any:
        """The ranks as a torch ``DeviceMesh``, for ``configure_model``."""

    @property
    def mesh_sizes(self) -> dict[str, int]:
        """The mesh's dimensions and their sizes, known before any process exists."""


class SupportsStages(Protocol):
    """A strategy whose ranks hold different layers, one stage after the other; :class:`SupportsMesh` too."""

    @property
    def schedule_text(self) -> str:
        """How a batch goes through the stages, in a sentence; known before any process exists."""

    def stages(self, module: nn.Module) -> list[list[str]]:
        """Return the names of the parameters that each stage holds, of a module that is whole; all hold the others."""

    def whole_module(self, module: nn.Module) -> nn.Module:
        """Return a copy of this rank's module in which other ranks' layers are on the meta device, to be counted."""


class SingleDevice(Strategy):
    """One device in this process: the choice of ``strategy="auto"`` for one, and the name for ``isinstance``."""

    def broadcast(self, value: Any, src: int = 0) -> Any:
        """Return ``value``; for ranks that repeat the script of rank 0 (lt-parallel), what it has decided there."""
        decided = plugins.find("defaults", "decided")
        return value if decided is None else decided(value, self.rank)
