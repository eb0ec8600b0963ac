"""Members of Lightning's strategies and number formats that subclasses override: called in lt's places, or refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from inspect import signature
from typing import Any

import torch

from lt_compat.lightning.trainer_views import computing_in
from lt_core.callback import Callback
from lt_core.errors import ConfigError
from lt_core.interface import is_overridden
from lt_core.precision import Precision
from lt_core.strategy import Strategy

__all__ = [
    "ParallelMembers",
    "PrecisionMembers",
    "StrategyHooks",
    "StrategyMembers",
    "refuse_uncalled",
    "refused_members",
]

_CONTEXTS = {
    "training_step": "train_step_context",
    "validation_step": "val_step_context",
    "test_step": "test_step_context",
    "predict_step": "predict_step_context",
}
_HOOKS = """on_exception on_predict_end on_predict_start on_test_end on_test_start on_train_batch_start on_train_end
on_train_start on_validation_end on_validation_start"""
_UNCALLED: dict[type, str] = {
    Precision: """backward clip_grad_by_norm clip_grad_by_value clip_gradients connect convert_output main_params
        module_init_context on_load_checkpoint on_save_checkpoint optimizer_step post_backward pre_backward teardown""",
    Strategy: """accelerator backward:closure_loss batch_to_device checkpoint_io configure_ddp connect
        determine_ddp_device_ids distributed_sampler_kwargs global_rank
        handles_gradient_accumulation is_global_zero
        lightning_module lightning_module_state_dict lightning_restore_optimizer load_checkpoint:checkpoint_path
        load_model_state_dict load_optimizer_state_dict model model_sharded_context model_to_device num_processes
        on_after_inner_forward on_after_outer_forward optimizer_state:optimizer optimizer_step:model optimizers
        parallel_devices post_backward post_training_step pre_backward precision_plugin predict_step process_dataloader
        reduce reduce_boolean_decision remove_checkpoint:filepath restore_checkpoint_after_setup root_device
        save_checkpoint:filepath set_world_ranks setup:trainer setup_distributed setup_environment setup_optimizers
        setup_precision_plugin teardown tensor_init_context test_step training_step validation_step""",
}
"""Lightning's members that lt does not call; with a parameter: those of lt's that Lightning has with this one."""


StrategyMembers: Any = type(
    "StrategyMembers",
    (),
    {
        **dict.fromkeys(_HOOKS.split(), lambda self, *given: None),
        "register_strategies": classmethod(lambda cls, registry: None),
    },
)
"""Lightning's hooks of a strategy, which a subclass overrides."""


class ParallelMembers(StrategyMembers):  # type: ignore[misc]  # made above
    """Lightning's attributes of a strategy of several processes."""

    parallel_devices: list[torch.device] | None = None
    cluster_environment: Any = None

    def set_parts(self, **parts: Any) -> None:
        """Set the devices of this node and the environment."""
        self.__dict__.update(parts)

    @property
    def distributed_sampler_kwargs(self) -> dict[str, int]:
        """Arguments of a ``DistributedSampler``."""
        return {"num_replicas": max(self.world_size, len(self.parallel_devices or ())), "rank": self.rank}


class PrecisionMembers:
    """Lightning's contexts of a number format, which lt enters around the steps where a subclass overrides one."""

    def autocast_context_manager(self) -> AbstractContextManager[Any]:
        """Return the context of the computation."""
        return computing_in(self, getattr(self, "_lt_device_type", "cpu"))

    def forward_context(self) -> AbstractContextManager[Any]:
        """Return the context of every step."""
        return self.autocast_context_manager()

    def train_step_context(self) -> AbstractContextManager[Any]:
        """Return the context of one kind of step."""
        return self.forward_context()

    val_step_context = test_step_context = predict_step_context = train_step_context

    def tensor_init_context(self) -> AbstractContextManager[Any]:
        """Return the context for new parameters."""
        context: AbstractContextManager[Any] = super().init_context()  # type: ignore[misc]
        return context

    def init_context(self) -> AbstractContextManager[Any]:
        return self.tensor_init_context()

    def wrap_step(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``step`` in its context."""
        names = ("autocast_context_manager", "forward_context", *_CONTEXTS.values())
        if not any(is_overridden(self, name, PrecisionMembers) for name in names):
            plain: Callable[..., Any] = super().wrap_step(step)  # type: ignore[misc]
            return plain
        context = getattr(self, _CONTEXTS.get(getattr(step, "__name__", ""), "train_step_context"))

        def in_context(*given: Any, **named: Any) -> Any:
            with context():
                return step(*given, **named)

        return in_context


def refused_members(part: type) -> dict[str, str]:
    """Return members of Lightning's kind of part that lt does not call, each with the parameter that tells it."""
    kinds = (names for kind, names in _UNCALLED.items() if issubclass(part, kind))
    return {name: told for names in kinds for name, _, told in (word.partition(":") for word in names.split())}


def refuse_uncalled(part: Any) -> None:
    """Raise where a user's class overrides a member that lt would not call.

    Raises:
        ConfigError: with the members.
    """
    own: dict[str, Any] = {}
    for kind in reversed(type(part).__mro__):
        if not kind.__module__.startswith("lt_"):
            own |= vars(kind)
    refused = refused_members(type(part)).items()
    found = [name for name, told in refused if name in own and (not told or told in signature(own[name]).parameters)]
    if found:
        base = next(kind for kind in _UNCALLED if isinstance(part, kind))
        raise ConfigError(
            f"{type(part).__name__} overrides {', '.join(found)}, which Lightning calls and lt does not. Override the "
            f"members of {base.__module__}.{base.__name__} that lt calls in their places, or hooks of the module.",
            code="LT692",
        )


class StrategyHooks(Callback):
    """Calls the hooks of a strategy.

    Args:
        strategy: the strategy.
    """

    def __init__(self, strategy: Any) -> None:
        names = [name for name in _HOOKS.split() if is_overridden(strategy, name, StrategyMembers)]
        self.__dict__.update({name: partial(_call, strategy, name) for name in names})


def _call(strategy: Any, name: str, trainer: Any, module: Any, *rest: Any) -> None:
    getattr(strategy, name)(*rest)
