"""Reading the result of a training step."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from lt_core.data import Feed
from lt_core.dialect import NOT_MINE, attribute_of, spoken
from lt_core.errors import HookError, did_you_mean
from lt_core.module import LightningModule
from lt_core.strategy import Strategy
from lt_loops.arguments.problems import shown
from lt_loops.former_names import OUTPUTS, understood_by
from lt_loops.logging.slot import accumulation_dtype
from lt_loops.run.loss_watch import LossWatch
from lt_loops.state.position import Pending

Weight = float | Tensor
"""A number of samples; a tensor, shape ``()``, where it is on a device, which nothing here waits for."""


def loss_and_weight(output: Any) -> tuple[Tensor | None, Weight | None]:
    """Return the loss of a step, shape ``()``, and the ``loss_weight`` that it came with.

    Raises:
        HookError: for a return value that is no loss.
    """
    if isinstance(output, Tensor):
        return _scalar(output), None
    if output is None:
        return None, None
    if isinstance(output, Mapping) and "loss" in output:
        loss, weight = output["loss"], _weight_of(output)
        if loss is None:
            return None, None
        if isinstance(loss, Tensor):
            return _scalar(loss), weight
        raise _no_loss(output, f"its 'loss' is a {type(loss).__name__}")
    raise _no_loss(output, "there is no loss in it")


def read_losses(output: Any, names: list[str] | None) -> tuple[list[tuple[Tensor, str | None]], Weight | None]:
    """Return the losses of a step, each with its optimizer's name (None: all), and the weight."""
    if names is None or not isinstance(output, Mapping) or "loss" in output:
        loss, weight = loss_and_weight(output)
        return ([] if loss is None else [(loss, None)]), weight
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
    return [(_scalar(value), name) for name, value in kept], _weight_of(output)


def balanced(
    output: Any, losses: LossWatch, module: LightningModule, strategy: Strategy, pending: Pending, feed: Feed
) -> Tensor | None:
    """Return the loss of a plain step that returned no bare tensor; weighted over ranks where it asked for it."""
    loss, weight = loss_and_weight(output)
    log_returned(module, output)
    if loss is None:
        losses.missing()
    if strategy.world_size == 1:
        return loss
    if loss is None:
        loss, weight = zero_loss(module), 0.0 if pending.weighted else None
    if weight is None:
        return loss
    share = feed.weight
    pending.weighted = True
    weight = weight if share else 0.0  # a stand-in for no sample weighs nothing
    # the loop multiplies by the share of an uneven batch, which the weights hold already
    return times(loss, weight * strategy.world_size / (sum_weights(strategy, weight) * (share or 1.0)))


def log_returned(module: LightningModule, output: Any) -> None:
    """Have a dialect log the mappings in a step's result, as Lightning did up to 0.9.

    Raises:
        HookError: where no installed package understands it.
    """
    found = [key for key, value in output.items() if isinstance(value, Mapping)] if isinstance(output, dict) else []
    for key in found:
        log = attribute_of(module, f"output.{key}") if f"output.{key}" in spoken() else NOT_MINE
        if log is not NOT_MINE:
            log(output)
            return
        if key in OUTPUTS:
            raise HookError(
                f"training_step returned {key!r} with values to be logged, as up to Lightning 0.9: write "
                f"{OUTPUTS[key]}. {understood_by()}",
                code="LT906",
            )


def sum_weights(strategy: Strategy, weight: Weight) -> Weight:
    """Return the sum of the ranks' weights, on the device where that is none of the CPU's; 1 in place of 0."""
    if strategy.world_size == 1:
        return _or_one(weight)
    device = strategy.device
    dtype = accumulation_dtype(device)
    mine = weight.to(dtype) if isinstance(weight, Tensor) else torch.full((), weight, dtype=dtype, device=device)
    total = strategy.all_reduce(mine, "sum")
    return _or_one(total.item() if device.type == "cpu" else total)


def times(value: Tensor, factor: Weight) -> Tensor:
    """Return ``value * factor`` in the format of ``value``, as a number would scale it."""
    if not isinstance(factor, Tensor):
        return value * factor
    wide = torch.promote_types(value.dtype, torch.float32)
    return (value.to(wide) * factor.to(wide)).to(value.dtype)


def _or_one(total: Weight) -> Weight:
    return total + (total == 0) if isinstance(total, Tensor) else total or 1.0


def _weight_of(output: Mapping[Any, Any]) -> Weight | None:
    weight = output.get("loss_weight")
    if weight is None:
        return None
    if isinstance(weight, Tensor) and weight.device.type != "cpu":
        return weight.detach().reshape(())
    if isinstance(weight, Tensor | Real):
        return float(weight)
    raise _no_loss(output, f"its 'loss_weight' is a {type(weight).__name__}, expected a number of samples")


def zero_loss(module: LightningModule) -> Tensor:
    """Return a loss whose gradients are all zero, so that a rank that skips a batch still takes part in the
    reduction.
    """
    # of all parameters, as DDP waits for each of them; in one type, as stack takes no mixture; of a shard the
    # local part, so that its gradient is a shard too
    terms = [getattr(p, "to_local", lambda p=p: p)().sum() * 0.0 for p in module.parameters() if p.requires_grad]
    return torch.stack([t.to(terms[0].dtype) for t in terms]).sum()


def as_outputs(output: Any) -> Any:
    """Return the ``outputs`` of hooks: ``{"loss": ...}`` detached, with the other items of the result; empty for
    a step that returned nothing.
    """
    if output is None:
        return {}
    if isinstance(output, Tensor):
        return {"loss": output.detach()}  # a hook that keeps it must not keep the graph of each batch
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
