"""Parts of the Trainer under Lightning's names: each shows the part itself, and beside it Lightning's attributes.

A face passes for its part (``isinstance`` too), and holds nothing: it asks the Trainer whenever it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ClassVar

import torch

from lt_compat.lightning.environments import ClusterEnvironment
from lt_core import plugins
from lt_core.checkpoint import CheckpointIO
from lt_core.errors import ConfigTypeError
from lt_core.precision import Precision

__all__ = ["AcceleratorConnector", "Answers", "Face", "PrecisionFace", "StrategyFace", "computing_in", "without_cache"]


class Answers(type):
    """Classes to which objects of lt's class belong too."""

    def __instancecheck__(cls, value: object) -> bool:
        base = vars(cls).get("of_lt")
        return isinstance(value, base) if base is not None else super().__instancecheck__(value)

    def __subclasscheck__(cls, kind: type) -> bool:
        base = vars(cls).get("of_lt")
        return issubclass(kind, base) if base is not None else super().__subclasscheck__(kind)


class Face:
    """Shows a part of a Trainer.

    Args:
        part: the part.
        trainer: whose.
    """

    reads: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {}
    """Lightning's attributes: each from the part and the Trainer."""

    sets: ClassVar[Mapping[str, Callable[[Any, Any], None]]] = {}
    """The attributes that can be set between runs: each in the Trainer, to a value."""

    def __init__(self, part: Any, trainer: Any) -> None:
        self.__dict__.update(_part=part, _trainer=trainer)

    @property  # type: ignore[misc]  # the part's own class, for isinstance
    def __class__(self) -> Any:
        return type(self._part)

    @property
    def itself(self) -> Any:
        """The part, without a face."""
        return self._part

    def __getattr__(self, name: str) -> Any:
        read = type(self).reads.get(name)
        return getattr(self._part, name) if read is None else read(self._part, self._trainer)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("optimizers", "_optimizers"):
            self._trainer.optimizers = value
        elif name in type(self).sets and self._trainer.stage is None:
            type(self).sets[name](self._trainer, value)
        elif name in type(self).reads:
            raise AttributeError(f"{name} cannot be set here: give it to the Trainer's constructor. [LT917]")
        else:
            setattr(self._part, name, value)

    def __eq__(self, other: object) -> bool:
        return self._part is getattr(other, "_part", other)

    def __hash__(self) -> int:
        return hash(self._part)

    def __repr__(self) -> str:
        return repr(self._part)

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self._part,)


def _itself(part: Any) -> Any:
    return part


def _remove_checkpoint(strategy: Any, trainer: Any) -> Callable[..., None]:
    def remove(*given: Any) -> None:
        """Delete a file; lt's method takes the CheckpointIO first, Lightning's does not."""
        strategy.remove_checkpoint(*given) if len(given) == 2 else trainer.remove_checkpoint(*given)

    return remove


def _save_checkpoint(strategy: Any, trainer: Any) -> Callable[..., None]:
    def save(*given: Any) -> None:
        """Write a tree to a path; lt's method takes the CheckpointIO first. The file is complete when it returns."""
        if len(given) == 3:
            strategy.save_checkpoint(*given)
        else:
            strategy.save_checkpoint(trainer.checkpoint_io, *given)
            trainer.checkpoint_io.wait()

    return save


def _devices(strategy: Any, trainer: Any) -> list[Any]:
    return [trainer.accelerator.torch_device(index) for index in trainer.device_ids]


def _environment(strategy: Any, trainer: Any) -> ClusterEnvironment:
    if strategy.one_process:
        raise AttributeError("A strategy of one process has no cluster_environment, here as in Lightning.")
    return AcceleratorConnector(trainer=trainer).cluster_environment


def _module(strategy: Any, trainer: Any) -> Any:
    return None if trainer.model is None else trainer.lightning_module


def _load_optimizers(strategy: Any, trainer: Any) -> Callable[[Any], None]:
    def load(checkpoint: Any) -> None:
        for optimizer, state in zip(trainer.optimizers, checkpoint["optimizer_states"], strict=False):
            strategy.load_optimizer_state(trainer.lightning_module, optimizer, state)

    return load


def _setup_optimizers(strategy: Any, trainer: Any) -> Callable[..., None]:
    def setup(*given: Any) -> None:
        """Call configure_optimizers again in the middle of a fit: parameters were replaced."""
        training = trainer._run.training
        training._made()
        training.mark_dirty()

    return setup


def _set_checkpoint_io(trainer: Any, io: Any) -> None:
    trainer._parts.checkpoint_io = _expected(CheckpointIO, "checkpoint_io", io)


def _set_precision(trainer: Any, precision: Any) -> None:
    parts, made = trainer._parts, _expected(Precision, "precision_plugin", precision)
    if parts.eval_precision is parts.precision:
        parts.eval_precision = made
    parts.precision = without_cache(made)


def without_cache(precision: Any) -> Any:
    """Return a number format whose autocast casts a weight at each use, as that of Lightning's Trainer does."""
    if hasattr(precision, "caches"):
        precision.caches = False
    return precision


def _expected(kind: type, name: str, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ConfigTypeError(f"trainer.strategy.{name}: expected a {kind.__name__}, got {value!r}.", code="LT148")
    return getattr(value, "itself", value)


class StrategyFace(Face):
    """``trainer.strategy``: Lightning's holds the module, the optimizers and the other parts."""

    reads: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {
        "_ddp_kwargs": lambda strategy, trainer: strategy.ddp_arguments,
        "_lightning_module": _module,
        "accelerator": lambda strategy, trainer: trainer.accelerator,
        "batch_to_device": lambda strategy, trainer: lambda batch, *given, **named: strategy.to_device(batch),
        "block_backward_sync": lambda strategy, trainer: partial(
            strategy.accumulating, trainer.lightning_module, False
        ),
        "checkpoint_io": lambda strategy, trainer: trainer.checkpoint_io,
        "cluster_environment": _environment,
        "connect": lambda strategy, trainer: lambda model: None,
        "distributed_sampler_kwargs": lambda strategy, trainer: trainer.distributed_sampler_kwargs,
        "is_distributed": lambda strategy, trainer: trainer.world_size > 1,
        "handles_gradient_accumulation": lambda strategy, trainer: strategy.capabilities.owns_accumulation,
        "lightning_module": _module,
        "lightning_module_state_dict": lambda strategy, trainer: partial(
            strategy.module_state, trainer.lightning_module
        ),
        "lightning_restore_optimizer": lambda strategy, trainer: True,
        "load_model_state_dict": lambda strategy, trainer: (
            lambda checkpoint, strict=True: strategy.load_module_state(
                trainer.lightning_module, checkpoint["state_dict"], strict
            )
        ),
        "load_optimizer_state_dict": _load_optimizers,
        "lr_scheduler_configs": lambda strategy, trainer: trainer.lr_scheduler_configs,
        "lr_schedulers": lambda strategy, trainer: trainer.lr_scheduler_configs,
        "model": lambda strategy, trainer: trainer.model,
        "on_exception": lambda strategy, trainer: lambda exception: None,
        "num_processes": lambda strategy, trainer: trainer.num_devices,
        "optimizers": lambda strategy, trainer: trainer.optimizers,
        "parallel_devices": _devices,
        "precision_plugin": lambda strategy, trainer: trainer.precision_plugin,
        "remove_checkpoint": _remove_checkpoint,
        "restore_checkpoint_after_setup": lambda strategy, trainer: strategy.capabilities.sharded_parameters,
        "save_checkpoint": _save_checkpoint,
        "tensor_init_context": lambda strategy, trainer: trainer.init_module,
        "setup_optimizers": _setup_optimizers,
        "strategy_name": lambda strategy, trainer: "single_device" if strategy.one_process else strategy.name,
    }
    sets: ClassVar[Mapping[str, Callable[[Any, Any], None]]] = {
        "checkpoint_io": _set_checkpoint_io,
        "precision_plugin": _set_precision,
    }


def computing_in(precision: Any, device_type: str) -> AbstractContextManager[Any]:
    """Return a context that computes in a number format: autocast, or another default for new tensors."""
    if precision.name.endswith("-mixed"):
        return torch.autocast(device_type, precision.dtype, cache_enabled=getattr(precision, "caches", False))
    return precision.init_context()  # type: ignore[no-any-return]


def _context(precision: Any, trainer: Any) -> Callable[[], AbstractContextManager[Any]]:
    return partial(computing_in, precision, trainer.strategy.device.type)


def _unscale(precision: Any, trainer: Any) -> Callable[[Any], None]:
    scaler = getattr(precision, "scaler", None)
    return (lambda optimizer: None) if scaler is None else scaler.unscale_


class PrecisionFace(Face):
    """``trainer.precision_plugin``."""

    reads: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {
        **dict.fromkeys(("forward_context", "train_step_context", "val_step_context", "test_step_context"), _context),
        "predict_step_context": _context,
        "tensor_init_context": lambda precision, trainer: precision.init_context,
        "module_init_context": lambda precision, trainer: precision.init_context,
        "main_params": lambda precision, trainer: (
            lambda optimizer: (parameter for group in optimizer.param_groups for parameter in group["params"])
        ),
        "precision": lambda precision, trainer: precision.name,
        "scaler": lambda precision, trainer: getattr(precision, "scaler", None),
        "unscale_gradients": _unscale,
    }

    def __getattr__(self, name: str) -> Any:
        """Have the attributes of Lightning's mixed precision."""
        if name in ("device", "autocast_context_manager") and self._part.name.endswith("-mixed"):
            return self._trainer.strategy.device.type if name == "device" else _context(self._part, self._trainer)
        return super().__getattr__(name)


class AcceleratorConnector:
    """Which accelerator and devices a Trainer has, by Lightning's names; it can be made of two arguments too.

    Args:
        accelerator: as the Trainer's.
        devices: as the Trainer's.
        trainer: whose; without one, one is made of the arguments.
    """

    def __init__(self, accelerator: Any = "auto", devices: Any = "auto", *, trainer: Any = None) -> None:
        if trainer is None:
            trainer = plugins.load("trainers", "default")(accelerator=accelerator, devices=devices, barebones=True)
        self._trainer = trainer

    @property
    def is_distributed(self) -> bool:
        """Whether there are several processes."""
        return bool(self._trainer.world_size > 1)

    @property
    def use_distributed_sampler(self) -> bool:
        """Whether the data is divided among the ranks."""
        return bool(self._trainer.settings.use_distributed_sampler)

    @property
    def _accelerator_flag(self) -> str:
        return str(self._trainer.accelerator.name)

    @property
    def _strategy_flag(self) -> Any:
        strategy = self._trainer.strategy
        return strategy if strategy.one_process else strategy.name

    @property
    def _precision_flag(self) -> Any:
        return self._trainer.precision

    @property
    def _num_nodes_flag(self) -> int:
        return int(self._trainer.num_nodes)

    def _check_and_init_precision(self) -> Any:
        return self._trainer.precision_plugin

    def _choose_strategy(self) -> Any:
        return self._trainer.strategy

    @property
    def _devices_flag(self) -> int | list[int]:
        trainer = self._trainer
        return trainer.num_devices if trainer.accelerator.device_type == "cpu" else list(trainer.device_ids)

    @property
    def _parallel_devices(self) -> list[Any]:
        return _devices(None, self._trainer)

    parallel_devices = _parallel_devices

    @property
    def cluster_environment(self) -> ClusterEnvironment:
        """Who this process is, also before the strategy starts the others."""
        made = ClusterEnvironment.of(self._trainer.strategy.environment)
        made.set_world_size(self._trainer.world_size)
        return made

    def __getattr__(self, name: str) -> Any:
        if name in ("strategy", "accelerator", "precision_plugin", "num_nodes", "num_devices", "device_ids"):
            return getattr(self._trainer, name)
        raise AttributeError(f"lt has no accelerator connector with {name!r}: ask the Trainer itself. [LT917]")

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "_trainer":
            raise AttributeError(f"{name} cannot be set here: give it to the Trainer's constructor. [LT917]")
        object.__setattr__(self, name, value)
