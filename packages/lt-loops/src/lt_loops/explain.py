"""What a Trainer would do, in words: who runs where, on how much data, and what happens when."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lt_core.callback import Callback
from lt_core.hooks import CALLBACK_HOOKS
from lt_core.overrides import is_overridden
from lt_loops.sources import flatten, limited

if TYPE_CHECKING:
    from lt_loops.facts import TrainerFacts

__all__ = ["explain"]


def explain(trainer: TrainerFacts, loaders: Any, devices: int | None, num_nodes: int | None) -> str:
    """Return the plan of a fit as text; nothing is launched, and the hardware need not be here.

    Args:
        trainer: with its arguments.
        loaders: training loaders from which to count, or None.
        devices: devices on each node, in place of the Trainer's.
        num_nodes: nodes, in place of the Trainer's.
    """
    per_node = devices or trainer.num_devices
    nodes = num_nodes or trainer.num_nodes
    parts = [
        _places(trainer, per_node, nodes),
        _data(trainer, loaders, per_node * nodes),
        _times(trainer),
        _callbacks(trainer),
    ]
    return "\n\n".join(part for part in parts if part)


def _places(trainer: TrainerFacts, per_node: int, nodes: int) -> str:
    ranks = per_node * nodes
    kind = trainer.accelerator.device_type
    strategy = trainer.strategy.name
    if trainer.settings.strategy == "auto" and ranks > 1 and strategy == "single":
        strategy = "ddp"
    what = f"strategy {strategy!r}, accelerator {trainer.accelerator.name!r}, precision {trainer.precision!r}"
    size = f"{nodes} node{'s' * (nodes > 1)} x {per_node} device{'s' * (per_node > 1)}"
    lines = [f"Where: {what}: {size} = {ranks} rank{'s' * (ranks > 1)}"]
    for rank in range(min(ranks, 16)):
        node, local = divmod(rank, per_node)
        place = kind if kind == "cpu" else f"{kind}:{local}"
        lines.append(f"  node {node}  rank {rank}  {place:8}  data shard {rank + 1} of {ranks}")
    if ranks > 16:
        lines.append(f"  ... and so on up to rank {ranks - 1}")
    mesh = getattr(trainer.strategy, "mesh_shape", None)
    if mesh:
        lines.append(f"  device mesh: {mesh}")
    return "\n".join(lines)


def _data(trainer: TrainerFacts, loaders: Any, ranks: int) -> str:
    found = flatten(loaders)
    if not found:
        return ""
    loader = found[0]
    batch = getattr(loader, "batch_size", None)
    window = trainer.window_of(trainer.current_epoch)
    lines = ["Data (training):"]
    if batch:
        per_step = f"{batch} per rank x {ranks} x {window} accumulated = {batch * ranks * window} samples for each step"
        lines.append(f"  batch: {per_step}")
    try:
        whole: int | None = len(loader)
    except TypeError:
        whole = None
    if whole is None:
        lines.append("  batches: unknown, the loader has no length")
        return "\n".join(lines)
    per_rank = limited(-(-whole // ranks), trainer.limit_train_batches, "limit_train_batches")
    steps = -(-int(per_rank) // window)
    lines.append(f"  an epoch: {int(per_rank)} batches on each rank, {steps} optimizer steps")
    if trainer.max_epochs not in (None, -1):
        total = steps * trainer.max_epochs
        total = min(total, trainer.max_steps) if trainer.max_steps >= 0 else total
        lines.append(f"  the whole fit: {total} optimizer steps")
    return "\n".join(lines)


def _times(trainer: TrainerFacts) -> str:
    every, interval = trainer.check_val_every_n_epoch, trainer.val_check_interval
    if isinstance(interval, timedelta):
        when = f"every {interval} of training"
    elif every is None:
        when = f"every {interval} training batches, counted across epochs"
    elif isinstance(interval, int):
        when = f"every {interval} training batches"
    else:
        when = "at the end" if interval == 1.0 else f"after each {interval:g}"
        when += " of every epoch" if every == 1 else f" of every {every}. epoch"
    loggers = ", ".join(type(logger).__name__ for logger in trainer.loggers) or "no logger"
    stops = [
        f"max_epochs={trainer.max_epochs}" if trainer.max_epochs not in (None, -1) else "",
        f"max_steps={trainer.max_steps}" if trainer.max_steps >= 0 else "",
        f"max_time={trainer.settings.max_time}" if trainer.settings.max_time else "",
        *(type(callback).__name__ for callback in trainer.early_stopping_callbacks),
    ]
    return "\n".join(
        [
            "When:",
            f"  validation: {when}",
            f"  step values: every {trainer.log_every_n_steps} optimizer steps, to {loggers}",
            f"  stops: {', '.join(filter(None, stops)) or 'never by itself'}",
        ]
    )


def _callbacks(trainer: TrainerFacts) -> str:
    if not trainer.callbacks:
        return ""
    lines = ["Callbacks, in the order in which they are called (those marked * after the module at an epoch's end):"]
    for number, callback in enumerate(trainer.callbacks, 1):
        hooks = [hook for hook in sorted(CALLBACK_HOOKS) if is_overridden(callback, hook, Callback)]
        lines.append(f"  {number}. {type(callback).__name__}{'*' * callback.monitors}: {', '.join(hooks)}")
    return "\n".join(lines)
