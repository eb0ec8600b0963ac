"""Attributes with the name of a hook that Lightning 2.6.6 passes over, and at which lt would refuse to run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any, TypeVar

from lt_compat.v1.hooks import takes, with_methods
from lt_core.callback import Callback
from lt_core.hooks import CALLBACK_HOOKS, MODULE_HOOKS
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["is_lightnings", "without_uncalled"]

T = TypeVar("T", LightningModule, Callback)

_WORDS = {
    "fit": ("fit", "train", "validation"),
    "validate": ("validation",),
    "test": ("test",),
    "predict": ("predict",),
}
"""By the run, the words in the names of hooks that are its own."""


def is_lightnings(trainer: TrainerAPI) -> bool:
    """Return whether a Trainer is that of lt.compat."""
    module: Any = sys.modules.get("lt_compat.lightning.trainer")
    return module is not None and isinstance(trainer, module.trainer_class())


def without_uncalled(owner: T, stage: str | None) -> T:
    """Return the object with hooks that fit in place of those that are not called: no methods, and of other runs.

    An attribute that is no method is passed over; a hook of another run may take any arguments, and so may one for
    loaders: where they are given it is not called, and where it is, Python says what is missing.
    """
    is_module = isinstance(owner, LightningModule)
    base: Any = LightningModule if is_module else Callback
    others = {word for words in _WORDS.values() for word in words}.difference(_WORDS[stage or "fit"]) | {"dataloader"}
    methods: dict[str, Callable[..., Any]] = {}
    for name in MODULE_HOOKS - {"forward", "training_step"} if is_module else CALLBACK_HOOKS:
        own, theirs = getattr(owner, name, None), getattr(base, name)
        if own is None or not callable(theirs):
            continue
        if not callable(own) and not name.endswith("_step"):
            methods[name] = MethodType(theirs, owner)
        elif callable(own) and others.intersection(name.split("_")) and not takes(own, theirs.__code__.co_argcount - 1):
            methods[name] = partial(_with_any, own)
    return with_methods(owner, methods, partial(without_uncalled, stage=stage))


def _with_any(own: Callable[..., Any], *given: Any) -> Any:
    return own(*given)
