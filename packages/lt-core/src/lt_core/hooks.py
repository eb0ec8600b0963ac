"""The hooks of lt: who may define them, with which arguments, in which order they run."""

from __future__ import annotations

from lt_core._bases.callback import CallbackBase
from lt_core._bases.module import ModuleBase
from lt_core.callback import Callback
from lt_core.data import DataSource
from lt_core.module import LightningModule

__all__ = ["CALLBACK_HOOKS", "DATA_HOOKS", "FIT_ORDER", "MODULE_HOOKS"]

DATA_HOOKS: frozenset[str] = frozenset(
    n for n in vars(DataSource) if not n.startswith("_") and callable(getattr(DataSource, n))
)
"""Hooks that a module and a datamodule share."""

CALLBACK_HOOKS: frozenset[str] = frozenset(
    n for n in (*vars(CallbackBase), *vars(Callback)) if n.startswith("on_") or n in ("setup", "teardown")
)
"""Hooks of callbacks."""

MODULE_HOOKS: frozenset[str] = DATA_HOOKS | frozenset(
    n
    for n, member in (vars(ModuleBase) | vars(LightningModule)).items()
    if callable(member)  # on_gpu and global_step are properties
    and (
        n.startswith(("on_", "configure_"))
        or n.endswith("_step")
        or n in ("backward", "optimizer_zero_grad", "setup", "teardown", "forward")
    )
)
"""Hooks of a module."""

FIT_ORDER: tuple[str, ...] = (
    "configure_callbacks",
    "prepare_data",
    "setup",
    "configure_model",
    "configure_optimizers",
    "on_fit_start",
    "on_sanity_check_start",
    "on_sanity_check_end",
    "on_train_start",
    "on_train_epoch_start",
    "on_before_batch_transfer",
    "transfer_batch_to_device",
    "on_after_batch_transfer",
    "on_train_batch_start",
    "training_step",
    "on_before_zero_grad",
    "optimizer_zero_grad",
    "on_before_backward",
    "backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "configure_gradient_clipping",
    "optimizer_step",
    "lr_scheduler_step",
    "on_train_batch_end",
    "on_validation_model_zero_grad",
    "on_validation_model_eval",
    "on_validation_start",
    "on_validation_epoch_start",
    "on_validation_batch_start",
    "validation_step",
    "on_validation_batch_end",
    "on_validation_epoch_end",
    "on_validation_end",
    "on_validation_model_train",
    "on_train_epoch_end",
    "on_save_checkpoint",
    "on_train_end",
    "on_fit_end",
    "teardown",
)
"""The order in which ``fit`` calls its hooks; one batch, one validation, one epoch."""
