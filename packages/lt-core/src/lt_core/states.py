"""Words for the state of a Trainer: strings with the names that Lightning gives them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Self

__all__ = ["GradClipAlgorithmType", "LightningEnum", "RunningStage", "TrainerFn", "TrainerState", "TrainerStatus"]


class LightningEnum(StrEnum):
    """A string with a fixed set of values, compared without regard to case."""

    @classmethod
    def from_str(cls, value: str) -> Self | None:
        """Return the member with this value or name, or None."""
        wanted = value.lower().replace("-", "_")
        return next((m for m in cls if wanted in (m.value.lower().replace("-", "_"), m.name.lower())), None)

    def __eq__(self, other: object) -> bool:
        text = other.value if isinstance(other, Enum) else other
        return isinstance(text, str) and self.value.lower() == text.lower()

    def __hash__(self) -> int:
        return hash(self.value.lower())


class TrainerStatus(LightningEnum):
    """How far a run is."""

    INITIALIZING = "initializing"
    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def stopped(self) -> bool:
        """Whether the run is over."""
        return self in (TrainerStatus.FINISHED, TrainerStatus.INTERRUPTED, TrainerStatus.FAILED)


class TrainerFn(LightningEnum):
    """Which method of the Trainer runs; equals ``trainer.stage``."""

    FITTING = "fit"
    VALIDATING = "validate"
    TESTING = "test"
    PREDICTING = "predict"


class RunningStage(LightningEnum):
    """Which loop runs."""

    TRAINING = "train"
    SANITY_CHECKING = "sanity_check"
    VALIDATING = "validate"
    TESTING = "test"
    PREDICTING = "predict"

    @property
    def evaluating(self) -> bool:
        """Whether it is validation or test."""
        return self in (RunningStage.VALIDATING, RunningStage.TESTING, RunningStage.SANITY_CHECKING)

    @property
    def dataloader_prefix(self) -> str:
        """What the names of loaders begin with."""
        return "val" if self in (RunningStage.VALIDATING, RunningStage.SANITY_CHECKING) else self.value


class GradClipAlgorithmType(LightningEnum):
    """How gradients are clipped."""

    VALUE = "value"
    NORM = "norm"


@dataclass
class TrainerState:
    """Status, method and loop in one.

    Attributes:
        status: how far the run is.
        fn: the Trainer's method that runs.
        stage: the loop that runs.
    """

    status: TrainerStatus = TrainerStatus.INITIALIZING
    fn: TrainerFn | None = None
    stage: RunningStage | None = None

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.status == TrainerStatus.FINISHED

    @property
    def stopped(self) -> bool:
        """Whether the run is over."""
        return self.status.stopped
