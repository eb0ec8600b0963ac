"""Lightning's Fabric: lt-core's parts for a loop of one's own, under the names that such loops call."""

from __future__ import annotations

import atexit
import copy
import inspect
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, Sampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from lt_compat.lightning.fabric_wrappers import (
    DistributedSamplerWrapper,
    FabricDataLoader,
    FabricModule,
    FabricOptimizer,
    unwrapped,
)
from lt_compat.lightning.internals import convert_tensors_to_scalars
from lt_compat.lightning.rank_zero import rank_zero_warn
from lt_compat.lightning.trainer import trainer_class
from lt_compat.lightning.trainer_views import computing_in
from lt_core.batch import map_batch, move_to_device
from lt_core.collectives import Collectives
from lt_core.launcher import RunResult
from lt_core.ranks import Ranks
from lt_core.seed import pl_worker_init_function, seed_everything
from lt_core.terminal import say

__all__ = ["Fabric"]


class Fabric(Collectives):
    """The parts of a hand-written loop that runs anywhere: placement, number format, ranks, files, loggers.

    Args:
        accelerator: as the Trainer's.
        strategy: as the Trainer's.
        devices: as the Trainer's.
        num_nodes: as the Trainer's.
        precision: as the Trainer's.
        plugins: as the Trainer's.
        callbacks: objects whose methods :meth:`call` calls, of any names.
        loggers: where :meth:`log` writes.
    """

    def __init__(
        self,
        *,
        accelerator: Any = "auto",
        strategy: Any = "auto",
        devices: Any = "auto",
        num_nodes: int = 1,
        precision: Any = None,
        plugins: Any = None,
        callbacks: Any = None,
        loggers: Any = None,
    ) -> None:
        trainer = trainer_class()(
            accelerator=accelerator,
            strategy=strategy,
            devices=devices,
            num_nodes=num_nodes,
            precision=precision,
            plugins=plugins,
            barebones=True,
        )
        self.accelerator = trainer.accelerator
        self.strategy = trainer.strategy.itself
        self.precision = trainer.precision_plugin.itself
        vars(self.precision).pop("caches", None)  # Fabric's autocast has torch's cache, Lightning's Trainer's has none
        self.checkpoint_io = trainer.checkpoint_io
        self.loggers: list[Any] = _as_list(loggers)
        if self.loggers:
            atexit.register(self._save_logs)
        self._callbacks: list[Any] = _as_list(callbacks)
        self._launched = False
        if type(self).run is not Fabric.run:
            self.__dict__["run"] = partial(self.launch, type(self).run)

    # ---- where it runs -----------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return self.strategy.device  # type: ignore[no-any-return]

    @property
    def global_rank(self) -> int:
        """Number of this process in the job, from 0."""
        return int(self.strategy.rank)

    @property
    def local_rank(self) -> int:
        """Number of this process on its node, from 0."""
        return int(self.strategy.local_rank)

    @property
    def node_rank(self) -> int:
        """Number of this node, from 0."""
        return int(self.strategy.node_rank)

    @property
    def world_size(self) -> int:
        """Processes in the job."""
        return int(self.strategy.world_size)

    @property
    def is_global_zero(self) -> bool:
        """Whether this is rank 0."""
        return self.global_rank == 0

    @property
    def logger(self) -> Any:
        """The first logger."""
        return self.loggers[0]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do nothing; a subclass may have its whole loop here, which then is launched when it is called."""

    def launch(self, function: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        """Start the job's processes, call ``function(fabric, ...)`` on each, and return rank 0's answer.

        Without a function each process goes on behind this line.
        """
        if function is not None and not callable(function):
            raise TypeError(f"fabric.launch(...) expected a function, got {function!r}: launch(train), not train().")
        if function is None and self.strategy.capabilities.returns_results:
            raise TypeError(
                f"fabric.launch() with the launcher {self.strategy.launcher.name!r}, whose processes end with the "
                "launch, expected a function that holds the loop: fabric.launch(train)."
            )
        self._launched = True
        return self.strategy.launch(_enter, self, function, args, kwargs).outputs

    def _check_launched(self) -> None:
        if not self._launched and self.world_size > 1:
            raise RuntimeError("Fabric with several processes expected fabric.launch() before this call.")

    # ---- set up ------------------------------------------------------------------------------------------------------

    def setup(
        self, module: nn.Module, *optimizers: Optimizer, scheduler: Any = None, move_to_device: bool = True, **_: Any
    ) -> Any:
        """Return the module, placed, and its optimizers (and ``scheduler``) if there are any."""
        placed = self.setup_module(module, move_to_device, optimizers=optimizers)
        wrapped = [self._optimizer(optimizer) for optimizer in optimizers]
        original: Any = placed.module
        if hasattr(original, "_lt_attach_run"):  # a LightningModule
            run = _InFabric(self, placed, wrapped)
            original._lt_attach_run(run, run)
            original.__dict__["_lt_manual"] = run
            self._callbacks.append(original) if original not in self._callbacks else None
        self.call("on_after_setup", fabric=self, module=placed)
        if not wrapped:
            return placed
        return (placed, *wrapped) if scheduler is None else (placed, *wrapped, scheduler)

    def setup_module(
        self, module: nn.Module, move_to_device: bool = True, *, optimizers: Sequence[Optimizer] = (), **_: Any
    ) -> FabricModule:
        """Return the module, placed; optimizers can be made of its parameters afterwards."""
        self._check_launched()
        if isinstance(module, FabricModule):
            raise ValueError("A module should be set up only once.")
        return FabricModule(module, self.strategy, self.precision, optimizers, move_to_device)

    def setup_optimizers(self, *optimizers: Optimizer) -> Any:
        """Return optimizers over the parameters of a module that is set up."""
        self._check_launched()
        wrapped = tuple(map(self._optimizer, optimizers))
        return wrapped[0] if len(wrapped) == 1 else wrapped

    def _optimizer(self, optimizer: Optimizer) -> FabricOptimizer:
        if isinstance(optimizer, FabricOptimizer):
            raise ValueError("An optimizer should be set up only once.")
        return FabricOptimizer(optimizer, self._step)

    def _step(self, optimizer: Optimizer, closure: Callable[[], Any] | None = None, **_: Any) -> Any:
        losses: list[Any] = []
        kept = None if closure is None else lambda: losses.append(closure()) or losses[-1]  # type: ignore[func-returns-value]
        self.precision.step(optimizer, lambda: self.strategy.optimizer_step(optimizer, kept))
        self.call("on_after_optimizer_step", strategy=self.strategy, optimizer=optimizer)
        return losses[0] if losses else None

    def setup_dataloaders(
        self, *dataloaders: Any, use_distributed_sampler: bool = True, move_to_device: bool = True
    ) -> Any:
        """Return loaders of this rank's samples, on its device; several come as a list."""
        self._check_launched()
        if not dataloaders or any(isinstance(loader, FabricDataLoader) for loader in dataloaders):
            raise ValueError("fabric.setup_dataloaders(...) expected at least one DataLoader, each set up only once.")
        if any(not isinstance(loader, DataLoader) for loader in dataloaders):
            raise TypeError("fabric.setup_dataloaders(...) expected DataLoaders of torch.")
        device, split = self.device if move_to_device else None, use_distributed_sampler
        found = [FabricDataLoader(self._of_rank(each) if split else each, device) for each in dataloaders]
        return found[0] if len(found) == 1 else found

    def _of_rank(self, loader: DataLoader[Any]) -> DataLoader[Any]:
        """Return a copy of the loader that reads every n-th sample, as torch's DistributedSampler chooses them."""
        loader = copy.copy(loader)
        if os.environ.get("PL_SEED_WORKERS") == "1" and loader.worker_init_fn is None:
            loader.worker_init_fn = partial(pl_worker_init_function, rank=self.global_rank)
        plain = isinstance(loader.dataset, IterableDataset) or isinstance(loader.sampler, DistributedSampler)
        if self.strategy.one_process or plain:
            return loader
        known = isinstance(loader.sampler, (RandomSampler, SequentialSampler))
        shuffles, seed = isinstance(loader.sampler, RandomSampler), int(os.environ.get("PL_GLOBAL_SEED", "0"))
        kind: Any = DistributedSampler if known else DistributedSamplerWrapper
        sampler: Sampler[Any] = kind(
            loader.dataset if known else loader.sampler,
            num_replicas=self.world_size,
            rank=self.global_rank,
            shuffle=shuffles,
            seed=self.strategy.broadcast(seed) if shuffles else seed,  # parts of one order
        )
        batches = copy.copy(loader.batch_sampler)
        if batches is not None:
            batches.__dict__["sampler"] = sampler
        loader.__dict__.update(sampler=sampler, batch_sampler=batches)  # torch forbids to set them
        return loader

    def to_device(self, obj: Any) -> Any:
        """Return a module, tensor or collection on the device of this process."""
        return obj.to(self.device) if isinstance(obj, nn.Module) else move_to_device(obj, self.device)

    def init_module(self, empty_init: bool | None = None) -> AbstractContextManager[Any]:
        """Return a context in which modules are made on the device and in the number format."""
        stack = ExitStack()
        stack.enter_context(self.strategy.init_context())
        stack.enter_context(self.precision.init_context())
        return stack

    init_tensor = init_module

    # ---- step --------------------------------------------------------------------------------------------------------

    def backward(self, tensor: Tensor, *args: Any, model: FabricModule | None = None, **kwargs: Any) -> None:
        """Compute gradients, of the scaled loss where the number format scales."""
        strategy = self.strategy if model is None else model.strategy
        strategy.backward(self.precision.scale_loss(tensor), *args, **kwargs)

    def autocast(self) -> AbstractContextManager[Any]:
        """Return a context that computes in the number format, as a module that is set up does by itself."""
        return computing_in(self.precision, self.device.type)

    def no_backward_sync(self, module: FabricModule, enabled: bool = True) -> AbstractContextManager[Any]:
        """Return a context in which gradients add up on each rank alone: around all but a window's last backward."""
        if not isinstance(module, FabricModule):
            raise TypeError("fabric.no_backward_sync(module) expected the result of fabric.setup(module).")
        return module.strategy.accumulating(module.forward_module, last=not enabled)  # type: ignore[no-any-return]

    def clip_gradients(
        self,
        module: nn.Module,
        optimizer: Optimizer,
        clip_val: float | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        error_if_nonfinite: bool = True,
    ) -> Tensor | None:
        """Clip the optimizer's gradients by value, or by their total norm, which is returned."""
        if (clip_val is None) == (max_norm is None):
            raise ValueError("fabric.clip_gradients(...) expected either clip_val or max_norm.")
        own = unwrapped(optimizer)
        self.precision.unscale(own)
        params = [p for group in own.param_groups for p in group["params"]]
        if max_norm is None or self.strategy.capabilities.sharded_parameters:
            how = ("value", clip_val) if max_norm is None else ("norm", max_norm)
            return self.strategy.clip_gradients(params, how[1], how[0])  # type: ignore[no-any-return]
        return nn.utils.clip_grad_norm_(params, max_norm, norm_type, error_if_nonfinite)

    # ---- talk --------------------------------------------------------------------------------------------------------

    def _lt_ranks(self) -> Ranks | None:
        self._check_launched()
        return None if self.strategy.one_process else self.strategy

    def all_reduce(self, data: Any, group: Any = None, reduce_op: str = "mean") -> Any:
        """Return numbers and tensors of any nesting, reduced over the ranks."""
        op = str(reduce_op).lower().replace("avg", "mean")
        if isinstance(data, int | float):
            return self.reduce(data, op)
        return map_batch(lambda tensor: self.reduce(tensor, op), data)

    def barrier(self, name: str | None = None) -> None:
        """Wait until every rank is here."""
        super().barrier(name or "")

    @contextmanager
    def rank_zero_first(self, local: bool = False) -> Iterator[None]:
        """Have rank 0 run the block before the others do."""
        rank = self.local_rank if local else self.global_rank
        if rank:
            self.barrier("rank_zero_first")
        yield
        if not rank:
            self.barrier("rank_zero_first")

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print on one rank of each node."""
        if self.local_rank == 0:
            say(*args, **kwargs)

    def log(self, name: str, value: Any, step: int | None = None) -> None:
        """Give the loggers a number."""
        self.log_dict({name: value}, step)

    def log_dict(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Give the loggers numbers."""
        if not self.is_global_zero:
            return
        numbers = convert_tensors_to_scalars(dict(metrics))
        for logger in self.loggers:
            logger.log_metrics(metrics=numbers, step=step)

    def _save_logs(self) -> None:
        for logger in self.loggers if self.is_global_zero else ():
            logger.save()

    def call(self, hook_name: str, *args: Any, **kwargs: Any) -> None:
        """Call the callbacks' methods of this name, with those keywords that they take."""
        for callback in self._callbacks:
            method = getattr(callback, hook_name, None)
            if method is not None and not callable(method):
                rank_zero_warn(f"Skipping {type(callback).__name__}.{hook_name}: it cannot be called.")
            elif method is not None:
                method(*args, **_taken(method, kwargs))

    @staticmethod
    def seed_everything(seed: int | None = None, workers: bool | None = None, verbose: bool = True) -> int:
        """Seed all generators, including loader workers unless ``workers=False``."""
        return seed_everything(seed, workers is not False, verbose)

    # ---- files -------------------------------------------------------------------------------------------------------

    def save(
        self,
        path: str | os.PathLike[str],
        state: Mapping[str, Any],
        filter: Mapping[str, Callable[[str, Any], bool]] | None = None,  # noqa: A002  (Lightning's name)
    ) -> None:
        """Write ``state`` to a file: of modules, optimizers and all that has one, its ``state_dict``.

        Args:
            path: a file.
            state: objects and plain data by name.
            filter: for some of the names which items of their state are written.
        """
        wrong = {*(filter or {})} - {*state}
        if wrong:
            raise ValueError(f"fabric.save(filter=...): {sorted(wrong)} are not in the state: {sorted(state)}.")
        modules = [value.module for value in state.values() if isinstance(value, FabricModule)]
        tree = {name: self._state_of(value, modules) for name, value in state.items()}
        for name, keeps in (filter or {}).items():
            if not callable(keeps):
                raise TypeError(f"fabric.save(filter=...): expected a function of a name and a value for {name!r}.")
            tree[name] = {key: value for key, value in tree[name].items() if keeps(key, value)}
        self.strategy.save_checkpoint(self.checkpoint_io, tree, path)
        self.barrier()

    def load(
        self,
        path: str | os.PathLike[str],
        state: Any = None,
        strict: bool = True,
        *,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Read a file into the objects of ``state``, and return the rest of it; plain data in ``state`` is replaced."""
        trusted = weights_only is False
        tree: dict[str, Any] = self.strategy.load_checkpoint(self.checkpoint_io, path, trusted=trusted)
        self.barrier()
        if isinstance(state, nn.Module | Optimizer):
            self._load_into(state, tree, strict)
            return {}
        missing = [name for name in state or {} if name not in tree]
        if missing and strict:
            raise KeyError(
                f"The requested state contains a key {missing[0]!r} that does not exist in the loaded checkpoint, "
                f"which has {sorted(tree)}. To disable strict loading, set `strict=False`."
            )
        for name in [name for name in state or {} if name in tree]:
            if hasattr(state[name], "load_state_dict"):
                self._load_into(state[name], tree.pop(name), strict)
            else:
                state[name] = tree.pop(name)
        return tree

    def load_raw(
        self, path: str | os.PathLike[str], obj: Any, strict: bool = True, *, weights_only: bool | None = None
    ) -> None:
        """Read a file that holds the state of one module or optimizer."""
        self.load(path, obj, strict, weights_only=weights_only)

    def _state_of(self, value: Any, modules: Sequence[nn.Module]) -> Any:
        own = unwrapped(value)
        if isinstance(own, nn.Module):
            return self.strategy.module_state(own)
        if isinstance(own, Optimizer):
            return self.strategy.optimizer_state(modules[0] if modules else None, own)
        return own.state_dict() if hasattr(own, "state_dict") else own

    def _load_into(self, value: Any, state: Any, strict: bool) -> None:
        own = unwrapped(value)
        if isinstance(own, nn.Module):
            self.strategy.load_module_state(own, state, strict=strict)
        elif isinstance(own, Optimizer):
            self.strategy.load_optimizer_state(None, own, state)
        else:
            own.load_state_dict(state)


class _InFabric:
    """The Trainer, recorder and manual optimization of a LightningModule that Fabric runs."""

    current_epoch = global_step = rank = 0
    slots = None

    def __init__(self, fabric: Fabric, placed: FabricModule, optimizers: Sequence[FabricOptimizer]) -> None:
        self._fabric, self._placed, self.optimizers = weakref.ref(fabric), weakref.ref(placed), optimizers

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        fabric: Any = self._fabric()
        fabric.backward(loss, *args, model=self._placed(), **kwargs)

    def resolve(self, name: str, given: Any, batch_size: int | None) -> Any:
        """Return the slot for the value of a call of ``self.log``."""
        return _Log(self._fabric(), name) if given.logger is not False else _Log(None, name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fabric(), name)


class _Log:
    given = None

    def __init__(self, fabric: Any, name: str) -> None:
        self._fabric, self._name = fabric, name

    def add(self, value: Any, batch_size: int | None) -> None:
        if self._fabric is not None:
            self._fabric.log(self._name, value)


def _enter(fabric: Fabric, function: Callable[..., Any] | None, args: Any, kwargs: Any) -> RunResult:
    """Enter the job on this rank; where there is a function, call it and leave."""
    fabric.strategy.open()
    if function is None:
        return RunResult()
    error: BaseException | None = None
    try:
        return RunResult(outputs=function(fabric, *args, **kwargs))
    except BaseException as caught:
        error = caught
        raise
    finally:
        fabric._save_logs()
        fabric.strategy.close(error)


def _taken(method: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those keywords that a method takes."""
    parameters = inspect.signature(method).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return dict(given)
    return {name: value for name, value in given.items() if name in parameters}


def _as_list(given: Any) -> list[Any]:
    return [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
