"""``trainer.state`` in Lightning's words: status, method and loop."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Self

from lt_core.states import Stage

__all__ = [
    "GradClipAlgorithmType",
    "LightningEnum",
    "RunningStage",
    "TrainerFn",
    "TrainerState",
    "TrainerStatus",
    "state_of",
]


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
        """The prefix of the names of loaders."""
        return "val" if self is RunningStage.SANITY_CHECKING else Stage(self.value).short


class GradClipAlgorithmType(LightningEnum):
    """How gradients are clipped."""

    VALUE = "value"
    NORM = "norm"

    @classmethod
    def supported_types(cls) -> list[str]:
        """Return all values."""
        return [each.value for each in cls]

    @classmethod
    def supported_type(cls, val: str) -> bool:
        """Return whether there is such a value."""
        return val in cls.supported_types()


@dataclass
class TrainerState:
    """How far the run is, which of the Trainer's methods runs, and which loop."""

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


def state_of(status: str, fn: str | None, stage: str | None) -> TrainerState:
    """Return the state of a Trainer, of lt's words for it; without a run ``fn`` is None, between runs ``stage``."""
    return TrainerState(TrainerStatus(status), TrainerFn(fn) if fn else None, RunningStage(stage) if stage else None)
