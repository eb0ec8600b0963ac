"""Constants and small functions of Lightning's internals that packages import; see :mod:`lt_compat.names.elsewhere`."""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lt_compat.lightning.rank_zero import rank_zero_only
from lt_compat.lightning.utilities import apply_to_collection
from lt_core import plugins
from lt_core.hooks import DATA_HOOKS, MODULE_HOOKS
from lt_core.module import LightningModule

CHECKPOINT_PAST_HPARAMS_KEYS = ("hparams", "module_arguments")
CONVERSION_DTYPES = [(bool, partial(torch.tensor, dtype=torch.uint8))]
FLOAT16_EPSILON, FLOAT32_EPSILON, FLOAT64_EPSILON = (
    torch.finfo(kind).eps for kind in (torch.float16, torch.float32, torch.float64)
)
CPU_DEVICE = torch.device("cpu")
LEFTOVER_PARAMS_NAME = "other params"
NOT_APPLICABLE = "n/a"
PARAMETER_NUM_UNITS = [" ", "K", "M", "B", "T"]
UNKNOWN_SIZE = "?"
Anything = Any
file_prefix = "file:"
framework = "pytorch-lightning"
interactive = hasattr(sys, "ps1")
min_seed = 0
no_logo = ""


def _hooks(name: str, hooks: Iterable[str]) -> ABCMeta:
    made = ABCMeta(name, (), {hook: getattr(LightningModule, hook) for hook in hooks})
    made.register(LightningModule)
    return made


_OF_CHECKPOINTS = {"on_load_checkpoint", "on_save_checkpoint"}
_OF_LT = {"on_exception", "on_predict_model_train"}
CheckpointHooks = _hooks("CheckpointHooks", _OF_CHECKPOINTS)
ModelHooks = _hooks(
    "ModelHooks",
    (name for name in MODULE_HOOKS - DATA_HOOKS - _OF_CHECKPOINTS - _OF_LT if name.startswith(("on_", "configure_m"))),
)


class Interval(Enum):
    """When ``Timer`` looks at the clock."""

    step = "step"
    epoch = "epoch"


class ModuleWrapper(nn.Module):
    """Holds a module, and calls it.

    Args:
        module: the user's.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


def do_nothing() -> None:
    """The closure of an optimizer without one."""


def convert_tensors_to_scalars(data: Any) -> Any:
    """Return ``data`` with tensors of one element as numbers."""

    def number(value: Tensor) -> Any:
        if value.numel() != 1:
            raise ValueError(f"The metric `{value}` does not contain a single element, thus it cannot be a scalar.")
        return value.item()

    return apply_to_collection(data, Tensor, number)


def parse_batch_shape(batch: Any) -> Any:
    """Return the shape of a tensor, a list of shapes for a list, ``"?"`` for anything else."""
    if hasattr(batch, "shape"):
        return list(batch.shape)
    return [parse_batch_shape(part) for part in batch] if isinstance(batch, list | tuple) else "?"


def size_text(total_model_size: float) -> str:
    """Return a size with three decimals."""
    return f"{total_model_size:,.3f}"


def standard_metrics(trainer: Any) -> Mapping[str, int | str]:
    """Return the values of a progress bar beside the metrics: the run's version."""
    version = getattr(trainer.logger, "version", None)
    return {} if version is None else {"v_num": version[-4:] if isinstance(version, str) else version}


def rank_of_environment() -> int | None:
    """Return this process's number in its job."""
    return int(getattr(rank_zero_only, "rank", 0))


def gpu_stats(device: torch.device) -> Mapping[str, float]:
    """Return a device's readings."""
    return plugins.load("accelerators", device.type)().stats(device)  # type: ignore[no-any-return]


cpu_stats = partial(gpu_stats, CPU_DEVICE)


def wrap_for_checkpointing(
    module: nn.Module, activation_checkpointing_kwargs: Mapping[str, Callable[..., Any]]
) -> None:
    """Have the layers that the arguments choose compute their activations anew in backward."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing

    if activation_checkpointing_kwargs:
        apply_activation_checkpointing(module, **activation_checkpointing_kwargs)


def reads_environment(method: Any) -> Any:
    """Return a Trainer's constructor as it is: lt's reads ``PL_TRAINER_*`` itself."""
    return method


def is_local(path: Any) -> bool:
    """Return whether a path, or a URL, is one of this machine."""
    protocol, is_url, _ = str(path).partition("://")
    return not is_url or protocol == "file"
