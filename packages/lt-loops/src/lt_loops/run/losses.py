"""Watches the loss: one that is not finite is reported once, with the first parameter that is not finite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lt_core.errors import LtError, warn

if TYPE_CHECKING:
    from lt_loops.run.frame import Run

__all__ = ["describe_anomaly", "watch_loss"]


def watch_loss(run: Run, output: Any) -> None:
    """Look at the loss of a step that is looked at anyway (when a log is due); with ``detect_anomaly``, of every step.

    Raises:
        LtError: with ``detect_anomaly``, for a loss that is not finite.
    """
    loss = output.get("loss") if isinstance(output, Mapping) else output
    position = run.position
    if run.loss_told or not isinstance(loss, Tensor):
        return
    if bool(torch.isfinite(loss.detach()).all()):
        run.loss_seen = position.step
        return
    run.loss_told = True
    since = "" if run.loss_seen is None else f", and was finite at step {run.loss_seen}, when it was looked at last"
    message = (
        f"The training loss is {loss.detach().float().mean().item()} at optimizer step {position.step} (epoch "
        f"{position.epoch}, batch {position.batch - 1}){since}; {_first_bad(run)}. Try a lower learning rate, "
        "gradient_clip_val, or look for a division by zero or log(0)"
    )
    if run.settings.detect_anomaly:
        raise LtError(f"{message}.", code="LT341")
    warn(f"{message}; Trainer(detect_anomaly=True) stops at the first such step.", code="LT341")


def describe_anomaly(run: Run) -> str:
    """Return where a backward pass met a number that is not finite, as torch's anomaly detection found it."""
    position = run.position
    where = f"optimizer step {position.step} (epoch {position.epoch}, batch {position.batch})"
    return f"this was at {where}; {_first_bad(run)}."


def _first_bad(run: Run) -> str:
    for name, parameter in run.module.named_parameters():
        if not bool(torch.isfinite(parameter.detach()).all()):
            return f"the first parameter that is not finite is {name!r}"
    return "all parameters are still finite"
