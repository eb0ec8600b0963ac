"""Names for what steps and hooks take and return, for annotations in users' modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

__all__ = [
    "EVAL_DATALOADERS",
    "STEP_OUTPUT",
    "TRAIN_DATALOADERS",
    "LRSchedulerPLType",
    "LRSchedulerTypeUnion",
    "OptimizerLRScheduler",
]

STEP_OUTPUT: TypeAlias = Tensor | Mapping[str, Any] | None
"""What a step returns: a loss of shape ``()``, a dict that holds it under ``"loss"``, or None to skip the batch."""

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
"""What ``configure_optimizers`` returns; :meth:`lt_core.module.LightningModule.configure_optimizers` explains each."""

TRAIN_DATALOADERS: TypeAlias = Any
"""Any iterable of batches, or a nest of them in lists and dicts."""

EVAL_DATALOADERS: TypeAlias = Any
"""Any iterable of batches, or a list of them."""
