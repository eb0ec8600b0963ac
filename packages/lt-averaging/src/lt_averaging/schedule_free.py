"""Optimizers whose weights are an average, and which are told when those are evaluated or saved."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from lt_core.callback import Callback
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["ScheduleFree"]


class ScheduleFree(Callback):
    """Calls ``train()`` and ``eval()`` of optimizers that have them, as those of the package schedulefree ask for.

    Such an optimizer (Defazio et al., "The Road Less Scheduled", 2024) trains at one point, and the weights to use are
    an average. Validation, checkpoints and the trained module have the average; a resume goes on from it as the run
    that was saved does. Optimizers without both methods are left alone.
    """

    changes_weights = True

    def __init__(self) -> None:
        self._lt_trains, self._lt_mode = False, "train"

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self._lt_trains = False

    def on_fit_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Go there for a search of LearningRateFinder or BatchSizeFinder too, where this callback stands before it."""
        self._lt_set(trainer, "train")

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Go to the point at which gradients are taken, once weights and states are loaded."""
        self._lt_trains = True
        self._lt_set(trainer, "train")

    def on_validation_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        if self._lt_trains:
            self._lt_set(trainer, "eval")

    def on_validation_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        if self._lt_trains:
            self._lt_set(trainer, "train")

    def on_save_checkpoint(self, trainer: TrainerAPI, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Put the average into the file, and go on from it as a resume will."""
        if not self._lt_trains or self._lt_mode == "eval" or trainer.model is None:
            return
        self._lt_set(trainer, "eval")
        weights = trainer.strategy.module_state(trainer.model)
        checkpoint["state_dict"] = {n: v.clone() if isinstance(v, Tensor) else v for n, v in weights.items()}
        self._lt_set(trainer, "train")
        for state in checkpoint.get("optimizer_states", ()):
            for group in state["param_groups"]:
                if "train_mode" in group:
                    group["train_mode"] = False

    def on_train_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_finish(trainer)

    def teardown(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        self._lt_finish(trainer)

    def _lt_finish(self, trainer: TrainerAPI) -> None:
        if self._lt_trains:
            self._lt_set(trainer, "eval")
        self._lt_trains = False

    def _lt_set(self, trainer: TrainerAPI, mode: str) -> None:
        self._lt_mode = mode
        for optimizer in trainer.optimizers:
            if hasattr(optimizer, "train") and hasattr(optimizer, "eval"):
                getattr(optimizer, mode)()
