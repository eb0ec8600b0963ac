"""Metrics that callbacks monitor, the messages for missing ones, and the loss of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from lt_core.errors import LogError, did_you_mean, nearest_name, warn
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["Monitor", "is_cut_short", "loss_of", "on_any_rank", "when_it_ends"]


class Monitor:
    """Tells why a monitored metric is missing: validation is off, or still to come, or the name is wrong.

    Args:
        who: name of the callback, for messages.
        hence: consequence of the missing metric, for messages.

    Attributes:
        of_validation: whether the metric is logged in validation and not in training; None while unknown.
    """

    def __init__(self, who: str, hence: str) -> None:
        self._who = who
        self._hence = hence
        self._validated = False
        self.of_validation: bool | None = None
        self._logged_before = False

    def start(self) -> None:
        self._validated = False

    def validated(self, trainer: TrainerAPI, monitor: str | None = None) -> bool:
        """Record the end of a validation; return whether it was a whole one, inside fit."""
        counts = trainer.stage == "fit" and not trainer.sanity_checking and not trainer.interrupted
        self._validated |= counts
        if counts and self.of_validation is None and monitor is not None:
            self.of_validation = not self._logged_before and monitor in trainer.callback_metrics
        return counts

    def before_validation(self, trainer: TrainerAPI, monitor: str | None) -> None:
        """Record, before a fit's first whole validation, whether training logs the metric."""
        if self.of_validation is None and monitor is not None and not trainer.sanity_checking:
            self._logged_before = monitor in trainer.callback_metrics

    def comes_with_validation(self, trainer: TrainerAPI, monitor: str | None) -> bool:
        """Return whether the next validation, and nothing before it, gives ``monitor`` for the present weights."""
        if monitor is None or not sum(trainer.num_val_batches):
            return False
        logged = monitor in ("epoch", "step") or monitor in trainer.callback_metrics
        return not logged if self.of_validation is None else self.of_validation

    def awaits_validation(self, trainer: TrainerAPI) -> bool:
        """Return whether this fit validates and has not done so yet."""
        return not self._validated and sum(trainer.num_val_batches) > 0

    def lacking(self, trainer: TrainerAPI, monitor: str, logged: Iterable[str]) -> LogError | None:
        """Return the error for a ``monitor`` that was not logged when it was due, or warn and return None."""
        names = sorted(logged)
        have = ", ".join(map(repr, names)) or "nothing"
        who = self._who
        validates = sum(trainer.num_val_batches) > 0
        off = not validates and is_overridden(trainer.lightning_module, "validation_step", LightningModule)
        if off and nearest_name(monitor, names, slip=True) is None:
            if trainer.is_global_zero:
                warn(
                    f"{who}(monitor={monitor!r}): validation is off (no validation loader, or limit_val_batches=0), "
                    f"and nothing of this name is logged in training, so {self._hence}.",
                    code="LT573",
                )
        elif self.awaits_validation(trainer):
            if trainer.is_global_zero:
                warn(
                    f"{who}(monitor={monitor!r}): no such metric before this fit's first validation, and until "
                    f"then {self._hence}. Logged so far: {have}.",
                    code="LT633",
                )
        else:
            rank = trainer.global_rank
            alone = f" on rank {rank} (rank_zero_only=True logs it on rank 0 alone: leave it out)" if rank else ""
            return LogError(
                f"{who}(monitor={monitor!r}): no metric of this name was logged{alone} when it was due. Logged so far: "
                f"{have}.{did_you_mean(monitor, names)} Log it by self.log({monitor!r}, ..., on_epoch=True) or monitor "
                "another one.",
                code="LT531",
            )
        return None


def loss_of(outputs: Any) -> Tensor | None:
    """Return the loss in the output of ``training_step``, shape ``()``, or None."""
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
    return loss if isinstance(loss, Tensor) else None


def when_it_ends(trainer: TrainerAPI) -> str:
    """Return what to say of a run that was asked to stop now."""
    if trainer.current_epoch + 1 < (trainer.min_epochs or 0) or trainer.global_step < (trainer.min_steps or 0):
        return "Training ends when min_epochs and min_steps are reached"
    return f"Training ends after epoch {trainer.current_epoch}"


def is_cut_short(trainer: TrainerAPI) -> bool:
    """Return whether a limit or ``should_stop`` has cut the present epoch short; a resume goes on in it and ends it."""
    return bool(trainer.stop_reason) and trainer.elapsed("epochs") < trainer.current_epoch + 1


def on_any_rank(trainer: TrainerAPI, decision: bool) -> bool:
    """Return whether ``decision`` is True on any rank; all ranks call this."""
    return any(trainer.strategy.gather_objects(bool(decision)))
