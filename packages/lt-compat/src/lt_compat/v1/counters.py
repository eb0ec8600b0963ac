"""The progress of a run in Lightning's checkpoints, of 1.x or 2.x."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["read_progress"]


def read_progress(
    tree: Mapping[str, Any], optimizers: int, batches: int | None, window: Callable[[int], int]
) -> tuple[int, int, int]:
    """Return epoch, batch and step of a file that Lightning wrote.

    Its random generators are not in the file, so a shuffled loader goes on in another order. The gradients of an
    unfinished accumulation window are not there either: the window is done again from its first batch.

    Args:
        tree: the file's content.
        optimizers: how many there are.
        batches: of an epoch; None where it is unknown.
        window: micro-batches of each optimizer step in an epoch.
    """
    loops = (tree.get("loops") or {}).get("fit_loop")
    step = int(tree.get("global_step", 0))
    if loops:
        step = _steps(optimizers, step, loops)
        epoch, done = _place(loops)
    else:
        epoch, done = _place_by_steps(step, int(tree.get("epoch", 0)), batches, window)
    return epoch, done - done % window(epoch), step


def _place(loops: dict[str, Any]) -> tuple[int, int]:
    """Return the epoch and the batches done in it.

    A file written by a callback has its batch or epoch "processed" and not yet "completed", though the weights have it.
    """
    epochs = (loops.get("epoch_progress") or {}).get("current") or {}
    progress = loops.get("epoch_loop.batch_progress") or {}
    batches = progress.get("current") or {}
    epoch = int(epochs.get("processed", epochs.get("completed", 0)))
    if not progress.get("is_last_batch", True):
        return epoch, int(batches.get("processed", batches.get("completed", 0)))
    return max(epoch, int(epochs.get("ready", epoch))), 0


def _steps(optimizers: int, counted: int, loops: dict[str, Any]) -> int:
    """Return in how many windows any optimizer stepped; Lightning counts the steps of each."""
    if optimizers < 2:
        return counted
    windows = int((loops.get("epoch_loop.state_dict") or {}).get("_batches_that_stepped", -1))
    together = counted // optimizers
    near = [steps for steps in (together, counted) if abs(steps - windows) <= 1]  # it counts after the callbacks
    return near[0] if near else together if windows < 0 else windows


def _place_by_steps(step: int, epoch: int, length: int | None, window: Callable[[int], int]) -> tuple[int, int]:
    """Return the epoch and the batches done in it, by the steps: before 1.6 a file says the epoch that comes next."""
    if not length or not epoch:
        return epoch, 0
    steps = [-(-length // window(done)) for done in range(epoch)]
    missing = sum(steps) - step
    return (epoch - 1, length - missing * window(epoch - 1)) if 0 < missing < steps[-1] else (epoch, 0)
