"""Changes how many batches make one optimizer step, by epoch."""

from __future__ import annotations

import sys

from lt_callbacks.arguments import whole
from lt_core.callback import Callback
from lt_core.errors import ConfigError
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["GradientAccumulationScheduler"]


class GradientAccumulationScheduler(Callback):
    """Sets ``trainer.accumulate_grad_batches`` from given epochs on.

    Args:
        scheduling: batches for one optimizer step, by the epoch (from 0) from which on they count:
            ``{0: 8, 4: 4, 8: 1}``. Before the first epoch named it is 1.

    Raises:
        ConfigError: for an empty schedule, epochs below 0 or counts below 1; at the start where the Trainer or manual
            optimization contradicts it.
    """

    def __init__(self, scheduling: dict[int, int]) -> None:
        given: object = scheduling
        if not isinstance(given, dict) or not given:
            raise ConfigError(
                f"GradientAccumulationScheduler(scheduling={given!r}): expected counts by epoch: {{0: 8, 4: 4}}.",
                code="LT178",
            )
        for epoch, count in scheduling.items():
            whole("GradientAccumulationScheduler", "an epoch of scheduling", epoch, 0)
            whole("GradientAccumulationScheduler", f"scheduling[{epoch}]", count, 1)
        super().__init__()
        self.scheduling = {0: 1, **scheduling}
        self.epochs = sorted(self.scheduling)
        self._lt_before: int | dict[int, int] | None = None

    def explain(self) -> str:
        return ", ".join(f"{self.scheduling[epoch]} batches a step from epoch {epoch} on" for epoch in self.epochs)

    def going_to_accumulate_grad_batches(self) -> bool:
        """Return whether any epoch accumulates."""
        return any(count > 1 for count in self.scheduling.values())

    def get_accumulate_grad_batches(self, epoch: int) -> int:
        """Return how many batches make one optimizer step in ``epoch``."""
        return self.scheduling[max(start for start in self.epochs if start <= epoch)]

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Check for contradictions, and give the Trainer the counts: ``estimated_stepping_batches`` goes by them."""
        if stage != "fit":
            return
        if not pl_module.automatic_optimization:
            raise ConfigError(
                "GradientAccumulationScheduler needs automatic_optimization: with False the module steps its "
                "optimizers itself. Remove the callback.",
                code="LT178",
            )
        before = trainer.accumulate_grad_batches
        if before != 1 or trainer.window_of(sys.maxsize) != 1:
            raise ConfigError(
                f"Trainer(accumulate_grad_batches={before}) and "
                f"GradientAccumulationScheduler({self.scheduling}) contradict each other. Give it in one place only.",
                code="LT178",
            )
        trainer.accumulate_grad_batches, self._lt_before = self.scheduling, before

    def teardown(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        if self._lt_before is not None:
            trainer.accumulate_grad_batches, self._lt_before = self._lt_before, None

    def on_train_epoch_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Set the count of a subclass that has another one than the schedule."""
        count = self.get_accumulate_grad_batches(trainer.current_epoch)
        if count != trainer.window_of(trainer.current_epoch):
            trainer.accumulate_grad_batches = count

    on_fit_start = on_train_epoch_start  # for an epoch that is resumed in its middle
