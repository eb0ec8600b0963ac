"""Numbers of a fit that has not begun, for a package that tells them beforehand (lt-explain)."""

from dataclasses import replace

from torch.optim import Optimizer

from lt_core.module import LightningModule
from lt_core.step import Step
from lt_core.strategy import Strategy
from lt_loops.arguments.limits import limited
from lt_loops.run.checkpoint import RESTORED
from lt_loops.run.feeds import batches_per_step
from lt_loops.setup.optimizers import parse_optimizers
from lt_loops.setup.resolve import asked_steps, automatic_strategy
from lt_loops.view import TrainerView

__all__ = ["automatic_strategy", "batches_per_step", "limited", "optimizers_of", "restored", "steps_of", "steps_of_fit"]


def optimizers_of(module: LightningModule) -> list[Optimizer]:
    """Return the optimizers that the module's ``configure_optimizers`` makes."""
    return parse_optimizers(module.configure_optimizers(), module).optimizers


def steps_of(trainer: TrainerView, strategy: Strategy) -> list[tuple[str, Step]]:
    """Return the training steps of other packages that the Trainer would take, each with its origin."""
    return list(asked_steps(trainer.settings, trainer._limits, strategy))


def steps_of_fit(trainer: TrainerView, batches: int | float, window: int | None) -> int | float:
    """Return the optimizer steps of a whole fit with so many batches an epoch; ``inf`` where nothing bounds them.

    Args:
        trainer: whose fit it would be.
        batches: of each rank; ``inf`` for a loader without a length.
        window: batches of a step, in place of the Trainer's ``accumulate_grad_batches``.
    """
    limits = trainer._limits if window is None else replace(trainer._limits, accumulate_grad_batches=window)
    return limits.steps_of_fit(batches)


def restored() -> list[tuple[str, str]]:
    """Return the stages of a restore and the parts of a checkpoint that each takes back, in order."""
    return [(when, what) for when, what, *_ in RESTORED]
