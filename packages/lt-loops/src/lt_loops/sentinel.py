"""Watches the loss: one that is not finite is reported with the first such parameter; so is one that never comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lt_core.errors import HookError, LtError, warn

if TYPE_CHECKING:
    from lt_loops.run.frame import Run

__all__ = ["check_epoch_had_loss", "describe_anomaly", "note_no_loss", "watch_loss"]

_FIRST_BATCHES = 20
"""Batches without a loss at the start of training after which a warning says so."""


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
    if run.trainer.settings.detect_anomaly:
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


# ---- no loss at all --------------------------------------------------------------------------------------------------


def note_no_loss(run: Run) -> None:
    """Note that the batch in hand came without a loss; warn once where none of the first batches had one.

    Only a batch without a loss comes here: ``run.without_loss`` is how many of them the epoch began with. It stays
    behind ``position.batch`` for good once a batch had a loss, and in an epoch that a resume continues.
    """
    position = run.position
    if run.without_loss != position.batch:
        return
    run.without_loss += 1
    if run.without_loss == _FIRST_BATCHES and not position.epoch and _trains_by_loss(run) and run.strategy.rank == 0:
        warn(_no_loss_in(run, f"the first {_FIRST_BATCHES} batches"), code="LT225", about=run.module.training_step)


def check_epoch_had_loss(run: Run) -> None:
    """Refuse an epoch in which no batch on any rank had a loss: nothing was trained.

    Raises:
        HookError: unless the module says that it is meant; with Lightning's behavior it is a warning.
    """
    position = run.position
    if not _trains_by_loss(run):
        return
    had_loss = not position.exhausted or run.without_loss != position.batch or not position.batch
    if run.strategy.world_size > 1:
        mine = torch.tensor(float(had_loss), device=run.strategy.device)
        had_loss = bool(run.strategy.all_reduce(mine, "sum").item())
    if had_loss:
        return
    message = _no_loss_in(run, f"any of the {position.batch} batches of epoch {position.epoch}")
    if not run.trainer.follows_lightning:
        raise HookError(message, code="LT225")
    if position.epoch or position.batch < _FIRST_BATCHES:
        warn(message, code="LT225", about=run.module.training_step)


def _trains_by_loss(run: Run) -> bool:
    module = run.module  # a batch of several parts (truncated back-propagation) may have a loss in some of them
    meant = module.trains_without_loss or module.truncated_bptt_steps
    return bool(run.optimizers) and module.automatic_optimization and not meant


def _no_loss_in(run: Run, batches: str) -> str:
    return (
        f"{type(run.module).__name__}.training_step returned no loss in {batches}, so no weight was trained. Is "
        "`return loss` missing? If it is meant, set trains_without_loss = True in the module; to call backward and the "
        "optimizers yourself, automatic_optimization = False."
    )
