"""Python's garbage collection at set batches, in place of whenever it comes."""

from __future__ import annotations

import gc
from typing import Any

from lt_callbacks.arguments import whole
from lt_core.callback import Callback
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["GarbageCollection"]


class GarbageCollection(Callback):
    """Collects garbage at the same batches on all ranks, and not in between.

    Python looks for unreachable cycles when enough objects were made, on each rank at a moment of its own; in each step
    some rank then keeps the others waiting. With this callback all of them do it together: young objects after every
    ``every_n_batches`` training batches, all of them at an epoch's end.

    Args:
        every_n_batches: batches between two collections, 1 or more.

    Raises:
        ConfigError: for fewer than 1.
    """

    def __init__(self, every_n_batches: int = 1000) -> None:
        self.every_n_batches = whole("GarbageCollection", "every_n_batches", every_n_batches, 1)
        self.batch_hooks_every = self.every_n_batches
        self._lt_was_on = False

    def on_fit_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Collect the garbage of the run's start, and turn Python's own collection off."""
        self._lt_was_on = gc.isenabled()
        gc.disable()
        gc.collect()

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if (batch_idx + 1) % self.every_n_batches == 0:
            gc.collect(1)

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        gc.collect()

    def on_fit_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Let Python collect again, if it did before."""
        self._lt_give_back()

    def on_exception(self, trainer: TrainerAPI, pl_module: LightningModule, exception: BaseException) -> None:
        self._lt_give_back()

    def _lt_give_back(self) -> None:
        if self._lt_was_on:
            gc.enable()
