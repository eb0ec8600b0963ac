"""A callback made of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lt_core.callback import Callback
from lt_core.errors import ConfigError, did_you_mean
from lt_core.hooks import CALLBACK_HOOKS

__all__ = ["LambdaCallback"]

_HOOKS = tuple(sorted(CALLBACK_HOOKS))


class LambdaCallback(Callback):
    """A callback whose hooks are given as functions: ``LambdaCallback(on_train_start=lambda trainer, module: ...)``.

    Args:
        hooks: functions by the hook's name, with the hook's arguments.

    Raises:
        ConfigError: for a name that is no hook, or a value that cannot be called.
    """

    def __init__(self, **hooks: Callable[..., Any] | None) -> None:
        for name, function in hooks.items():
            if name not in _HOOKS:
                raise ConfigError(
                    f"LambdaCallback({name}=...): no such hook.{did_you_mean(name, _HOOKS)} Known: "
                    f"{', '.join(_HOOKS)}.",
                    code="LT178",
                )
            if function is None:
                continue
            if not callable(function):
                raise ConfigError(f"LambdaCallback({name}={function!r}): expected a function.", code="LT178")
            if (set_name := getattr(function, "__set_name__", None)) is not None:
                set_name(type(self), name)  # as Python does in a class: `when` counts by the hook's name
            setattr(self, name, function)
