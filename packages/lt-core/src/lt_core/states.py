"""Words for what a Trainer does and how far it is: strings; all but :class:`Stage` with Lightning's names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Self

__all__ = [
    "GradClipAlgorithmType",
    "LightningEnum",
    "RunningStage",
    "Stage",
    "TrainerFn",
    "TrainerState",
    "TrainerStatus",
]


class Stage(StrEnum):
    """One of the four loops. A member is a string: ``Stage.VALIDATE == "validate"``.

    Attributes:
        run: the Trainer's method that is named after it, and ``trainer.stage``: ``"fit"``, ``"validate"``...
        short: as arguments and loaders have it: ``"val"`` in ``val_dataloader``, ``limit_val_batches``.
        hook: as hooks have it: ``"validation"`` in ``on_validation_start``.
        noun: as sentences have it: ``"training"``, ``"validation"``, ``"test"``, ``"prediction"``.
    """

    run: str
    short: str
    hook: str
    noun: str

    TRAIN = "train", "fit", "train", "train", "training"
    VALIDATE = "validate", "validate", "val", "validation", "validation"
    TEST = "test", "test", "test", "test", "test"
    PREDICT = "predict", "predict", "predict", "predict", "prediction"

    def __new__(cls, value: str, run: str = "", short: str = "", hook: str = "", noun: str = "") -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.run, member.short, member.hook, member.noun = run, short, hook, noun
        return member

    @classmethod
    def _missing_(cls, value: object) -> Stage | None:
        """Find a member by any of its words: ``Stage("fit")``, ``Stage("val")``, ``Stage("validation")``."""
        return next((stage for stage in cls if value in (stage.run, stage.short, stage.hook, stage.noun)), None)

    @property
    def step(self) -> str:
        """The module's method that it calls for each batch."""
        return f"{'training' if self is Stage.TRAIN else self.hook}_step"

    @property
    def loader(self) -> str:
        """The hook that returns its loaders."""
        return f"{self.short}_dataloader"

    @property
    def limit(self) -> str:
        """The Trainer's argument that limits its batches."""
        return f"limit_{self.short}_batches"


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
        return "val" if self is RunningStage.SANITY_CHECKING else Stage(self.value).short


class GradClipAlgorithmType(LightningEnum):
    """How gradients are clipped."""

    VALUE = "value"
    NORM = "norm"


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
