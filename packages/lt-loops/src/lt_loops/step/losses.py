"""Reading what a training step returned."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lt_core.errors import HookError, did_you_mean, warn
from lt_loops.arguments.problems import shown
from lt_loops.old_hooks import log_returned

if TYPE_CHECKING:
    from lt_loops.run.frame import Run

__all__ = [
    "as_outputs",
    "balanced",
    "check_epoch_had_loss",
    "log_old_keys",
    "loss_and_weight",
    "note_no_loss",
    "read_losses",
    "sum_weights",
    "zero_loss",
]

_FIRST_BATCHES = 20
"""Batches without a loss at the start of training after which a warning says so."""


def loss_and_weight(output: Any) -> tuple[Tensor | None, float | None]:
    """Return the loss of a step, shape ``()``, and the ``loss_weight`` that it came with.

    Raises:
        HookError: for a return value that is no loss.
    """
    if isinstance(output, Tensor):
        return _scalar(output), None
    if output is None:
        return None, None
    if isinstance(output, Mapping) and "loss" in output:
        weight = output.get("loss_weight")
        if weight is not None and not isinstance(weight, (Tensor, Real)):
            raise _no_loss(output, f"its 'loss_weight' is a {type(weight).__name__}, expected a number of samples")
        loss = output["loss"]
        if loss is None:
            return None, None
        if isinstance(loss, Tensor):
            return _scalar(loss), None if weight is None else float(weight)
        raise _no_loss(output, f"its 'loss' is a {type(loss).__name__}")
    raise _no_loss(output, "there is no loss in it")


def read_losses(run: Run, output: Any) -> tuple[list[tuple[Tensor, str | None]], float | None]:
    """Return the losses of a step with the name of the optimizer whose each is (None: all), and the weight."""
    log_old_keys(run, output)
    names = run.optimizer_names
    if names is None or not isinstance(output, Mapping) or "loss" in output:
        loss, weight = loss_and_weight(output)
        return ([] if loss is None else [(loss, None)]), weight
    weight = output.get("loss_weight")
    losses = {name: value for name, value in output.items() if name != "loss_weight"}
    unknown = [name for name in losses if name not in names]
    if unknown and not any(name in names for name in losses):
        raise _no_loss(output, f"expected 'loss' or losses by optimizer {names}")
    for name in unknown:
        if isinstance(losses[name], Tensor) and losses[name].requires_grad:
            raise HookError(
                f"training_step returned a loss {name!r}, but configure_optimizers named {names}."
                f"{did_you_mean(str(name), names)}",
                code="LT303",
            )
    kept = [(name, losses[name]) for name in names if losses.get(name) is not None]
    for name, value in kept:
        if not isinstance(value, Tensor):
            raise _no_loss(output, f"its {name!r} is a {type(value).__name__}")
    return [(_scalar(value), name) for name, value in kept], None if weight is None else float(weight)


def balanced(run: Run, output: Any) -> Tensor | None:
    """Return the loss of a plain step that returned no bare tensor; weighted over ranks where it asked for it."""
    loss, weight = loss_and_weight(output)
    log_old_keys(run, output)
    if loss is None:
        note_no_loss(run)
    strategy = run.strategy
    if strategy.world_size == 1:
        return loss
    if loss is None:
        loss, weight = zero_loss(run), 0.0 if run.pending.weighted else None
    if weight is None:
        return loss
    share = run.train_feed.weight if run.train_feed is not None else 1.0
    run.pending.weighted = True
    weight = weight if share else 0.0  # a stand-in for no sample weighs nothing
    # the loop multiplies by the share of an uneven batch, which the weights hold already
    return loss * (weight * strategy.world_size / ((sum_weights(run, weight) or 1.0) * (share or 1.0)))


def log_old_keys(run: Run, output: Any) -> None:
    """Log what a step returned under the keys ``log`` and ``progress_bar``, as it did up to 0.9."""
    if isinstance(output, dict) and ("log" in output or "progress_bar" in output):
        log_returned(run.module, output, "training_step")


def sum_weights(run: Run, weight: float) -> float:
    """Return the sum of the ranks' weights."""
    total = torch.tensor(weight, dtype=torch.float64, device=run.strategy.device)
    return run.strategy.all_reduce(total, "sum").item()


def zero_loss(run: Run) -> Tensor:
    """Return a loss whose gradients are all zero, so that a rank that skips a batch still takes part in the
    reduction.
    """
    terms = [p.sum() * 0.0 for p in run.module.parameters() if p.requires_grad]
    return torch.stack([t.to(terms[0].dtype) for t in terms]).sum()


def as_outputs(output: Any) -> Any:
    """Return what hooks get as ``outputs``: ``{"loss": ...}`` detached, with whatever else the step returned; empty for
    a step that returned nothing.
    """
    if output is None:
        return {}
    if isinstance(output, Tensor):
        return {"loss": output.detach()}
    if isinstance(output, Mapping):
        return {k: v.detach() if isinstance(v, Tensor) else v for k, v in output.items()}
    return output


def _scalar(loss: Tensor) -> Tensor:
    if loss.dim() and loss.numel() != 1:
        raise HookError(
            f"training_step returned a loss of shape {tuple(loss.shape)}; expected a single number. Take loss.mean().",
            code="LT304",
        )
    return loss


def _no_loss(output: Any, why: str) -> HookError:
    what = (
        f"a dict with the keys {list(output)}"
        if isinstance(output, Mapping)
        else f"{shown(output)} ({type(output).__name__})"
    )
    return HookError(
        f"training_step returned {what}: {why}. Return the loss (a tensor with one element), a dict with the key "
        "'loss', or None to skip the batch; in manual optimization set self.automatic_optimization = False.",
        code="LT304",
    )


# ---- no loss at all --------------------------------------------------------------------------------------------------


def note_no_loss(run: Run) -> None:
    """Note that the batch in hand came without a loss; warn once where none of the first batches had one.

    Only a batch without a loss comes here, so that others cost nothing.
    """
    at_first = run.count_without_loss() == _FIRST_BATCHES and not run.position.epoch
    if at_first and _trains_by_loss(run) and run.strategy.rank == 0:
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
    if not run.follows_lightning:
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
