"""Weights that were trained in other processes, put into the caller's module."""

from __future__ import annotations

from typing import Any

from lt_core.errors import warn
from lt_core.module import LightningModule
from lt_core.overrides import is_overridden

__all__ = ["take_weights"]


def take_weights(module: LightningModule, weights: dict[str, Any]) -> None:
    """Load what a run returned.

    Where layers are made in ``configure_model``, they exist on the ranks only so far, and are made here too.
    """
    if _lacks(module, weights) and is_overridden(module, "configure_model", LightningModule):
        failed: Exception | None = None
        try:
            module.configure_model()
        except Exception as error:  # sharding needs the ranks; what it made before that is all that is needed
            failed = error
        if _lacks(module, weights):
            warn(
                f"The trained weights are not in the module here: {type(module).__name__}.configure_model makes its "
                f"layers, and outside of the ranks it does not ({failed!r:.200}). Go on with ckpt_path='last' or a "
                "checkpoint, or start the ranks by the launcher 'script' or torchrun.",
                code="LT218",
            )
            return
    module.load_state_dict(weights)


def _lacks(module: LightningModule, weights: dict[str, Any]) -> bool:
    return not set(weights) <= set(module.state_dict())
