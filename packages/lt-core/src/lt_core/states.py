"""The words for a Trainer's activities: the method, the hook, the loader, the noun of each stage."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

__all__ = ["Stage"]


class Stage(StrEnum):
    """One of the four loops. A member is a string: ``Stage.VALIDATE == "validate"``.

    Attributes:
        run: the Trainer's method that is named after it, and ``trainer.stage``: ``"fit"``, ``"validate"``...
        short: as arguments and loaders have it: ``"val"`` in ``val_dataloader``, ``limit_val_batches``.
        hook: as hooks have it: ``"validation"`` in ``on_validation_start``.
        noun: as sentences have it: ``"training"``, ``"validation"``, ``"test"``, ``"prediction"``.
        step: the module's method that it calls for each batch.
        loader: the hook that returns its loaders.
        limit: the Trainer's argument that limits its batches.
    """

    run: str
    short: str
    hook: str
    noun: str
    step: str
    loader: str
    limit: str

    TRAIN = "train", "fit", "train", "train", "training"
    VALIDATE = "validate", "validate", "val", "validation", "validation"
    TEST = "test", "test", "test", "test", "test"
    PREDICT = "predict", "predict", "predict", "predict", "prediction"

    def __new__(cls, value: str, run: str = "", short: str = "", hook: str = "", noun: str = "") -> Self:
        member = str.__new__(cls, value)
        # without it Enum would compute the value by str() of all five words, which is a TypeError
        member._value_ = value
        member.run, member.short, member.hook, member.noun = run, short, hook, noun
        member.step = f"{noun if value == 'train' else hook}_step"
        member.loader, member.limit = f"{short}_dataloader", f"limit_{short}_batches"
        return member

    @classmethod
    def _missing_(cls, value: object) -> Stage | None:
        """Find a member by any of its words: ``Stage("fit")``, ``Stage("val")``, ``Stage("validation")``."""
        return next((stage for stage in cls if value in (stage.run, stage.short, stage.hook, stage.noun)), None)


def __getattr__(name: str) -> Any:
    """Find the words of ``trainer.state``, which are lt-compat's, where 0.1 had them."""
    from lt_core.plugins import load_name

    return load_name(__name__, {}, name)
