"""What is said when the metric that a callback monitors is not there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lt_core.errors import LogError, did_you_mean, warn
from lt_core.module import LightningModule
from lt_core.overrides import is_overridden, nearest_name

if TYPE_CHECKING:
    from lt_core.trainer import TrainerAPI

__all__ = ["missing", "validation_is_off"]


def validation_is_off(trainer: TrainerAPI, who: str, monitor: str, logged: Iterable[str], hence: str) -> bool:
    """Return whether ``monitor`` may be missing because nothing validates, and warn of it; ``hence``: what follows."""
    module = trainer.lightning_module
    validates = sum(trainer.num_val_batches) > 0 or not is_overridden(module, "validation_step", LightningModule)
    if validates or nearest_name(monitor, list(logged)) is not None:
        return False
    warn(
        f"{who}(monitor={monitor!r}): validation is off (no validation loader, or limit_val_batches=0), and nothing of "
        f"this name is logged in training, so {hence}.",
        code="LT573",
    )
    return True


def missing(who: str, monitor: str, logged: Iterable[str]) -> LogError:
    """Return the error for a ``monitor`` that was not logged when it was due."""
    names = sorted(logged)
    have = ", ".join(map(repr, names)) or "nothing"
    return LogError(
        f"{who}(monitor={monitor!r}): no metric of this name was logged when it was due. Logged so far: {have}."
        f"{did_you_mean(monitor, names)} Log it by self.log({monitor!r}, ...) or monitor another one.",
        code="LT531",
    )
