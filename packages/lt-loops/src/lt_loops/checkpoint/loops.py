"""The key ``loops`` of a checkpoint: a run's counters as Lightning 2.x writes them, so that it opens our files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lt_loops.run.frame import Run


LAYOUT_VERSION = "2.5.0"
"""The version of Lightning whose checkpoint layout is written."""


def loop_counters(run: Run) -> dict[str, Any]:
    """Return the counters as Lightning 2.x keeps them in a file written at the end of a batch or an epoch."""
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
