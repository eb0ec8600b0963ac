"""Types of the arguments and results of steps and hooks, for annotations in users' modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, Required, TypeAlias, TypedDict

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

__all__ = [
    "EVAL_DATALOADERS",
    "STEP_OUTPUT",
    "TRAIN_DATALOADERS",
    "LRSchedulerConfigType",
    "LRSchedulerPLType",
    "LRSchedulerTypeUnion",
    "OptimizerConfig",
    "OptimizerLRScheduler",
    "OptimizerLRSchedulerConfig",
]

STEP_OUTPUT: TypeAlias = Tensor | Mapping[str, Any] | None
"""The result of a step: a loss of shape ``()``, a dict with the key ``"loss"``, or None to skip the batch."""

LRSchedulerTypeUnion: TypeAlias = LRScheduler | ReduceLROnPlateau
LRSchedulerPLType: TypeAlias = LRSchedulerTypeUnion
"""A scheduler."""

OptimizerLRScheduler: TypeAlias = (
    Optimizer
    | Sequence[Optimizer]
    | tuple[Sequence[Optimizer], Sequence[LRSchedulerTypeUnion | Mapping[str, Any]]]
    | Mapping[str, Any]
    | Sequence[Mapping[str, Any]]
    | None
)
"""A result of ``configure_optimizers``; :meth:`lt_core.module.LightningModule.configure_optimizers` explains each."""

TRAIN_DATALOADERS: TypeAlias = Any
"""Any iterable of batches, or a nest of them in lists and dicts."""

EVAL_DATALOADERS: TypeAlias = Any
"""Any iterable of batches, or a list of them."""


class LRSchedulerConfigType(TypedDict, total=False):
    """The settings of a scheduler in ``configure_optimizers``."""

    scheduler: Required[LRSchedulerTypeUnion]
    name: str | None
    interval: str
    frequency: int
    reduce_on_plateau: bool
    monitor: str | None
    strict: bool


class OptimizerConfig(TypedDict):
    """The form of ``configure_optimizers`` for an optimizer alone."""

    optimizer: Optimizer


class OptimizerLRSchedulerConfig(TypedDict):
    """The form of ``configure_optimizers`` for an optimizer with its scheduler."""

    optimizer: Optimizer
    lr_scheduler: LRSchedulerTypeUnion | LRSchedulerConfigType
    monitor: NotRequired[str]
