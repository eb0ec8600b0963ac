"""The plan of a Trainer as text: who runs where, on how much data, and the schedule of events."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Any

from lt_core import plugins
from lt_core.accelerator import Accelerator
from lt_core.callback import Callback
from lt_core.data import each_loader, length_of
from lt_core.duration import Duration
from lt_core.environment import Environment
from lt_core.hooks import CALLBACK_HOOKS
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.strategy import Placement, Strategy
from lt_loops import Trainer
from lt_loops.forecast import (
    automatic_strategy,
    batches_per_step,
    limited,
    optimizers_of,
    restored,
    steps_of,
    steps_of_fit,
)

__all__ = ["explain"]

_SHOWN = 16  # ranks


@dataclass(frozen=True, eq=False)
class Imagined:
    """Hardware that need not be here, and the strategy on it.

    Attributes:
        accelerator: the kind of device.
        per_node: devices on each node.
        nodes: how many.
        strategy: not placed yet.
    """

    accelerator: Accelerator
    per_node: int
    nodes: int
    strategy: Strategy

    @property
    def world_size(self) -> int:
        return self.per_node * self.nodes

    def on(self, rank: int) -> Strategy:
        """Return the strategy as it would stand on ``rank``."""
        node, local = divmod(rank, self.per_node)
        environment = Environment(
            rank=rank,
            local_rank=local,
            node_rank=node,
            world_size=self.world_size,
            local_world_size=self.per_node,
            processes_exist=self.world_size > 1,
        )
        made = copy.copy(self.strategy)
        devices = tuple(range(self.per_node))
        made.place(
            Placement(accelerator=self.accelerator, devices=devices, num_nodes=self.nodes, environment=environment)
        )
        return made


def explain(
    trainer: Trainer,
    model: Any,
    loaders: Any,
    devices: int | None = None,
    num_nodes: int | None = None,
    accelerator: str | None = None,
    strategy: str | Strategy | None = None,
) -> str:
    """Return the plan of a fit as text, for :meth:`lt_loops.Trainer.explain`.

    Args:
        trainer: whose fit it would be.
        model: whose memory is counted, where it is a module.
        loaders: whose batches are counted; None for none.
        devices: devices on each node, in place of the Trainer's.
        num_nodes: nodes, in place of the Trainer's.
        accelerator: kind of device, in place of the Trainer's.
        strategy: in place of the Trainer's.
    """
    place = _imagine(trainer, devices, num_nodes, accelerator, strategy)
    memory = plugins.find("defaults", "memory") or _uncounted
    parts = [
        _places(trainer, place),
        memory(
            model, trainer.precision_plugin, place.on(0), loaders, optimizers_of, _window(trainer, loaders, place.on(0))
        )
        if isinstance(model, LightningModule)
        else "",
        _data(trainer, loaders, place.on(0)),
        _times(trainer, place.strategy),
        _callbacks(trainer),
        _resume(),
    ]
    return "\n\n".join(part for part in parts if part)


def _uncounted(*of: Any) -> str:
    return f"Memory: counted by lt-memory: {plugins.install_hint('lt-memory')}"


def _imagine(
    trainer: Trainer,
    devices: int | None,
    num_nodes: int | None,
    accelerator: str | None,
    strategy: str | Strategy | None,
) -> Imagined:
    per_node, nodes = devices or trainer.num_devices, num_nodes or trainer.num_nodes
    kind = trainer.accelerator if accelerator is None else plugins.load("accelerators", accelerator.lower())()
    chosen = strategy or trainer.strategy
    if strategy is None and trainer.settings.strategy == "auto":
        chosen = automatic_strategy(kind, per_node * nodes)
    made = plugins.load("strategies", chosen.lower())() if isinstance(chosen, str) else chosen
    return Imagined(kind, per_node, nodes, made)


def _places(trainer: Trainer, place: Imagined) -> str:
    world_size, per_node, nodes = place.world_size, place.per_node, place.nodes
    kind = f"accelerator {place.accelerator.name!r}, precision {trainer.precision!r}"
    size = f"{nodes} node{'s' * (nodes > 1)} x {per_node} device{'s' * (per_node > 1)}"
    lines = [f"Where: strategy {place.strategy.name!r}, {kind}: {size} = {world_size} rank{'s' * (world_size > 1)}"]
    for rank in range(min(world_size, _SHOWN)):
        here = place.on(rank)
        shard = here.data_shard
        lines.append(
            f"  node {here.node_rank}  rank {rank}  {here.device!s:8}  data shard {shard[0] + 1} of {shard[1]}"
        )
    if world_size > _SHOWN:
        lines.append(f"  ... and so on up to rank {world_size - 1}")
    sizes = getattr(place.on(0), "mesh_sizes", {})  # before the launch; a strategy of 0.1 may have device_mesh alone
    mesh = " x ".join(f"{name} {size}" for name, size in sizes.items())
    return "\n".join([*lines, f"  device mesh: {mesh}"] if mesh else lines)


def _window(trainer: Trainer, loaders: Any, strategy: Strategy) -> int:
    """Return the batches of a step."""
    kept = trainer.global_batch_size
    if kept is None or loaders is None:
        return trainer.window_of(trainer.current_epoch)
    return batches_per_step(kept, loaders, strategy)


def _data(trainer: Trainer, loaders: Any, strategy: Strategy) -> str:
    found = each_loader(loaders)
    if not found:
        return ""
    loader = found[0]
    batch = getattr(loader, "batch_size", None)
    shards, kept = strategy.data_shard.count, trainer.global_batch_size
    window = _window(trainer, loaders, strategy)
    lines = ["Data (training):"]
    if batch:
        per_step = (
            f"{batch} per rank x {shards} x {window} accumulated = {batch * shards * window} samples for each step"
        )
        lines.append(f"  batch: {per_step}" + ", kept on any number of ranks (global_batch_size)" * (kept is not None))
    if (whole := length_of(loader)) is None:
        lines.append("  batches: unknown, the loader has no length")
        return "\n".join(lines)
    share = whole // shards if getattr(loader, "drop_last", False) else -(-whole // shards)
    per_rank = limited(share, trainer.limit_train_batches, "limit_train_batches")
    steps = -(-int(per_rank) // window)
    lines.append(f"  an epoch: {int(per_rank)} batches on each rank, {steps} optimizer steps")
    if (total := steps_of_fit(trainer, per_rank, None if kept is None else window)) != inf:
        lines.append(f"  the whole fit: {total} optimizer steps")
    return "\n".join(lines)


def _times(trainer: Trainer, strategy: Strategy) -> str:
    every, interval = trainer.check_val_every_n_epoch, trainer.val_check_interval
    rows = trainer.log_every_n_steps
    if isinstance(interval, timedelta):
        when = f"every {interval} of training"
    elif isinstance(interval, Duration):
        when = f"every {interval}"
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
        f"max_time={trainer.settings.max_time}" if trainer.settings.max_time is not None else "",
        *(str(bound) for bound in [trainer.max_duration] if bound is not None and bound.unit in ("samples", "tokens")),
        *(type(callback).__name__ for callback in trainer.early_stopping_callbacks),
    ]
    return "\n".join(
        [
            "When:",
            f"  validation: {when}",
            *(f"  step: {step.explain()} ({asked})" for asked, step in steps_of(trainer, strategy)),
            f"  step values: every {rows if isinstance(rows, Duration) else f'{rows} optimizer steps'}, to {loggers}",
            f"  stops: {', '.join(filter(None, stops)) or 'never by itself'}",
            f"  checkpoints: {', '.join(type(cb).__name__ for cb in trainer.checkpoint_callbacks) or 'none'}",
            *(f"  {type(callback).__name__}: {text}" for callback in trainer.callbacks if (text := callback.explain())),
        ]
    )


def _callbacks(trainer: Trainer) -> str:
    if not trainer.callbacks:
        return ""
    lines = ["Callbacks, in the order in which they are called (those marked * after the module at an epoch's end):"]
    for number, callback in enumerate(trainer.callbacks, 1):
        hooks = [hook for hook in sorted(CALLBACK_HOOKS) if is_overridden(callback, hook, Callback)]
        lines.append(f"  {number}. {type(callback).__name__}{'*' * callback.monitors}: {', '.join(hooks)}")
    return "\n".join(lines)


def _resume() -> str:
    lines = [f"  {when}: {', '.join(w for _, w in group)}" for when, group in groupby(restored(), itemgetter(0))]
    return "\n".join(["A resume takes back, in this order:", *lines])
