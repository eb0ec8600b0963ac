"""Numbers of a fit that has not begun, for a package that tells them beforehand (lt-explain)."""

from __future__ import annotations

from dataclasses import replace

from lt_loops.arguments.limits import limited
from lt_loops.setup.feeds import batches_per_step
from lt_loops.setup.parts import automatic_strategy
from lt_loops.view import TrainerView

__all__ = ["automatic_strategy", "batches_per_step", "limited", "steps_of_fit"]


def steps_of_fit(trainer: TrainerView, batches: int | float, window: int | None) -> int | float:
    """Return the optimizer steps of a whole fit with so many batches an epoch; ``inf`` where nothing bounds them.

    Args:
        trainer: whose fit it would be.
        batches: of each rank; ``inf`` for a loader without a length.
        window: batches of a step, in place of the Trainer's ``accumulate_grad_batches``.
    """
    limits = trainer._limits if window is None else replace(trainer._limits, accumulate_grad_batches=window)
    return limits.steps_of_fit(batches)
