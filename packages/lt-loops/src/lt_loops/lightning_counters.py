"""The counters of a run as Lightning's loops keep them: written, so that it opens our files, and read from its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lt_core.seed import capture_generators

if TYPE_CHECKING:
    from lt_loops.run.frame import Run

__all__ = ["LIGHTNING_VERSION", "lightning_loops", "take_lightning_counters"]

LIGHTNING_VERSION = "2.5.0"
"""The version of Lightning whose checkpoint layout is written."""


def lightning_loops(run: Run) -> dict[str, Any]:
    """Return the counters as Lightning's loops keep them in a file written at the end of a batch or an epoch."""
    position, within = run.position, run.position.batch > 0
    length = run.data.length
    batches = position.batch if within else length or 0
    done = position.batch + position.epoch * (length or 0)
    epochs = {
        "ready": position.epoch + within,
        "completed": position.epoch if within else max(position.epoch - 1, 0),
        "started": position.epoch + within,
        "processed": position.epoch,
    }
    manual = not run.module.automatic_optimization
    steps = position.step * max(len(run.training.optimizers), 1)
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
        }
    }


def _steps_done(count: int) -> dict[str, dict[str, int]]:
    return {"total": {"ready": count, "completed": count}, "current": {"ready": count, "completed": count}}


def take_lightning_counters(run: Run, tree: dict[str, Any]) -> None:
    """Take over epoch, batch and step of a file that Lightning wrote, 1.x or 2.x.

    Its random generators are not in the file, so a shuffled loader draws a new order. The gradients of an unfinished
    accumulation window are not there either: the window is done again from its first batch.
    """
    position = run.position
    loops = (tree.get("loops") or {}).get("fit_loop")
    if loops:
        position.epoch, batches = _place(loops)
        position.step = _steps(run, int(tree.get("global_step", 0)), loops)
    else:
        position.step = int(tree.get("global_step", 0))
        position.epoch, batches = _place_by_steps(run, int(tree.get("epoch", 0)))
    position.batch = batches - batches % _window(run, position.epoch)
    if run.data.feed is not None and position.batch:
        run.data.feed.load_state_dict(
            {"epoch": position.epoch, "batches": position.batch, "before": capture_generators()}
        )


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


def _steps(run: Run, counted: int, loops: dict[str, Any]) -> int:
    """Return in how many windows any optimizer stepped; Lightning counts the steps of each."""
    if len(run.training.optimizers) < 2:
        return counted
    windows = int((loops.get("epoch_loop.state_dict") or {}).get("_batches_that_stepped", -1))
    together = counted // len(run.training.optimizers)
    near = [steps for steps in (together, counted) if abs(steps - windows) <= 1]  # it counts after the callbacks
    return near[0] if near else together if windows < 0 else windows


def _place_by_steps(run: Run, epoch: int) -> tuple[int, int]:
    """Return the epoch and the batches done in it, by the steps: before 1.6 a file says the epoch that comes next."""
    length = run.data.length
    if not length or not epoch:
        return epoch, 0
    steps = [-(-length // _window(run, done)) for done in range(epoch)]
    missing = sum(steps) - run.position.step
    return (epoch - 1, length - missing * _window(run, epoch - 1)) if 0 < missing < steps[-1] else (epoch, 0)


def _window(run: Run, epoch: int) -> int:
    return run.limits.window_of(epoch) if run.module.automatic_optimization else 1
