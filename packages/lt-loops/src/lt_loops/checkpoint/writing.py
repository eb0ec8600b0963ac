"""A run as plain data, for a checkpoint: what each of its owners gives, between the keys of the file's layout.

The file begins with ``lt_header``, what it says of itself (:mod:`lt_core.files.checkpoint_header`). It has Lightning's
layout (``epoch``, ``global_step``, ``state_dict``, ``optimizer_states``, ``lr_schedulers``, ``callbacks``,
``hyper_parameters``...). What lt needs beyond it to continue exactly is under ``lt``:

- ``position``: the counters (``Position``),
- ``pending``: counts of an unfinished accumulation window,
- ``loaders``: the epoch in which loaders of each kind were asked for, ``eval_steps``: evaluation batches logged,
- ``ranks``: for each rank its part of the data, its random generators, those from which its loaders drew as they were
  made, the sums of the epoch's metrics, its place in the data, the gradients of an unfinished window, also of one that
  the user accumulates in manual optimization, and what its strategy keeps for itself,
- ``loggers``: version and place in the files of each logger (None where it failed), ``precision``: the scaler.

Where an optional part (a logger, a callback, a datamodule) failed, or is not plain data, the key ``gaps`` says which,
and why; ``lt_types`` says where values were of another type (:mod:`lt_core.files.typed_data`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from lt_core.files.checkpoint_header import Contents
from lt_core.strategy import Strategy
from lt_loops.state.gaps import Gaps
from lt_loops.state.origin import Origin
from lt_loops.state.owner import Owner
from lt_loops.state.position import Position

LAYOUT_VERSION = "2.5.0"
"""The version of Lightning whose checkpoint layout is written."""


def checkpoint_of(
    contents: Contents,
    origin: Origin,
    position: Position,
    owners: Sequence[Owner],
    strategy: Strategy,
    gaps: Gaps,
    loops: dict[str, Any],
) -> dict[str, Any]:
    """Return everything that a resume needs, as plain data and tensors; called on every rank.

    The ``owners`` are asked in their order; ``gaps`` takes note of the optional parts that fail; ``loops`` are the
    counters as Lightning keeps them.
    """
    header = origin.next_header(position.step, position.last_epoch, weights_only=contents.weights_only)
    tree: dict[str, Any] = {
        **header.entry(),  # first, so that it stands in the file's first bytes
        "epoch": position.last_epoch,
        "global_step": position.step,
        "pytorch-lightning_version": LAYOUT_VERSION,
        "lt_version": _version(),
    }
    ranks: list[Any] = []
    if not contents.weights_only:
        mine = {"part": list(strategy.data_shard), **_joined(owner.rank_state() for owner in owners)}
        ranks = strategy.gather_objects(mine)
    tree |= _joined(owner.layout_state(contents, gaps) for owner in owners)
    if not contents.weights_only:
        shared = _joined(owner.shared_state(gaps) for owner in owners)
        tree |= {"loops": loops, "lt": {**shared, "ranks": ranks, "world_size": strategy.world_size}}
    for owner in owners:
        owner.complete(tree, contents, gaps)
    tree = gaps.without(tree)
    if gaps.found:
        tree["gaps"] = gaps.found
    return tree


def _joined(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {key: value for part in parts for key, value in part.items()}


@cache
def _version() -> str:
    try:
        return version("lt-loops")
    except PackageNotFoundError:
        return "unknown"


def loop_counters(position: Position, length: int | None, optimizers: int, *, manual: bool) -> dict[str, Any]:
    """Return the counters as Lightning 2.x keeps them in a file written at the end of a batch or an epoch.

    ``length``: batches of an epoch, None where unknown; ``manual``: the user steps the optimizers.
    """
    within = position.batch > 0
    batches = position.batch if within else length or 0
    done = position.batch + position.epoch * (length or 0)
    epochs = {
        "ready": position.epoch + within,
        "completed": position.epoch if within else max(position.epoch - 1, 0),
        "started": position.epoch + within,
        "processed": position.epoch,
    }
    steps = position.step * max(optimizers, 1)
    no_steps = _steps_done(0)
    return {
        "fit_loop": {
            "state_dict": {},
            "epoch_progress": {"total": epochs, "current": dict(epochs)},
            "epoch_loop.state_dict": {"_batches_that_stepped": position.step - within},
            "epoch_loop.batch_progress": {  # within an epoch as its callbacks at a batch's end see it
                "total": {"ready": done, "completed": done - within, "started": done, "processed": done},
                "current": {"ready": batches, "completed": batches - within, "started": batches, "processed": batches},
                "is_last_batch": not within or position.batch == length,
            },
            "epoch_loop.scheduler_progress": _steps_done(position.step),
            "epoch_loop.automatic_optimization.state_dict": {},
            "epoch_loop.automatic_optimization.optim_progress": {
                "optimizer": {
                    "step": no_steps if manual else _steps_done(steps),
                    "zero_grad": no_steps if manual else _steps_done(steps),
                }
            },
            "epoch_loop.manual_optimization.state_dict": {},
            "epoch_loop.manual_optimization.optim_step_progress": _steps_done(steps) if manual else no_steps,
        },
        **{f"{stage}_loop": {"state_dict": {}} for stage in ("validate", "test", "predict")},  # Lightning asks for them
    }


def _steps_done(count: int) -> dict[str, dict[str, int]]:
    return {"total": {"ready": count, "completed": count}, "current": {"ready": count, "completed": count}}
