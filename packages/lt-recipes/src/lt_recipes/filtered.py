"""Hooks that are called only now and then."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, ref

from torch import nn

from lt_core.duration import UNITS, Duration, Every
from lt_core.errors import ConfigError
from lt_core.hooks import CALLBACK_HOOKS, MODULE_HOOKS
from lt_core.trainer import TrainerAPI

__all__ = ["when"]

_Hook = TypeVar("_Hook", bound=Callable[..., Any])
Span = Duration | timedelta | str
"""A duration as it may be written."""


def when(*, every: int | Span | None = None, once: int | Span | None = None) -> Callable[[_Hook], _Hook]:
    """Decorate a hook of a callback, of a module, or a function of a ``LambdaCallback``: it runs only now and then.

    Hooks of training batches, backward and step count the training batches of all epochs, all others epochs; a resume
    goes on counting. ``every=100``: the 100th, the 200th... ``once=3``: the third alone. A duration of another unit
    (``every="1e6 tokens"``, ``once="0.5 run"``, ``every="10 min"``): the first call at which a multiple is reached.

    Args:
        every: call it at each multiple of this.
        once: call it at this one alone.

    Raises:
        ConfigError: where both or neither is given, for a number below 1, or a hook that has nothing to count.

    Example::

        class Watch(Callback):
            @when(every=100)
            def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx): ...

        LambdaCallback(on_train_epoch_end=when(once=1)(lambda trainer, module: trainer.print("one epoch is done")))
    """
    asked = every if once is None else once
    if (every is None) == (once is None) or (isinstance(asked, int) and asked < 1):
        raise ConfigError(
            f"when(every={every!r}, once={once!r}): expected one of the two, a number from 1 on or a duration.",
            code="LT233",
        )
    name = "once" if every is None else "every"
    number = asked if isinstance(asked, int) else Duration.of(asked, UNITS, f"when({name}={{}})")

    def decorate(hook: _Hook) -> _Hook:
        return cast("_Hook", Filtered(hook, number, repeats=every is not None))

    return decorate


class Filtered:
    """A hook, as a function or in a class, that is called only now and then."""

    def __init__(self, hook: Callable[..., Any], number: int | Duration, *, repeats: bool) -> None:
        self._hook, self._number, self._repeats = hook, number, repeats
        # by owner, a callback or module; with the recorder, of which each fit has its own
        self._multiples: WeakKeyDictionary[Any, tuple[ref[Any], Every]] = WeakKeyDictionary()
        functools.update_wrapper(self, hook)
        self._name = ""
        name = getattr(hook, "__name__", "")
        if name.isidentifier():
            self.__set_name__(None, name)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the counts: a copy in another process begins where the run stands there."""
        return self.__dict__ | {"_multiples": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _multiples=WeakKeyDictionary())

    def __set_name__(self, owner: type | None, name: str) -> None:
        """Note which hook it is, in a class or of a ``LambdaCallback``.

        Raises:
            ConfigError: for one that has nothing to count.
        """
        other_batches = "_batch_" in name and "_train_batch_" not in name
        if name not in CALLBACK_HOOKS | MODULE_HOOKS or not name.startswith("on_") or other_batches:
            raise ConfigError(
                f"when(...) on {name!r}: expected a hook of training batches, backward, step, or one that comes once "
                "an epoch (on_train_batch_end, on_train_epoch_end, on_validation_end...).",
                code="LT233",
            )
        self._name = name

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self
        bound = self._hook.__get__(owner)

        @functools.wraps(bound)
        def called(*args: Any, **kwargs: Any) -> Any:
            trainer: Any = owner.trainer if isinstance(owner, nn.Module) else args[0]
            return bound(*args, **kwargs) if self._is_due(trainer, owner) else None

        return called

    def __call__(self, trainer: TrainerAPI, *args: Any, **kwargs: Any) -> Any:
        """Be called as a function: with the Trainer first."""
        return self._hook(trainer, *args, **kwargs) if self._is_due(trainer, self) else None

    def _is_due(self, trainer: TrainerAPI, owner: Any) -> bool:
        if isinstance(self._number, Duration):
            return self._is_reached(self._number, trainer, owner)
        if "train_batch" in self._name or self._name.startswith(("on_before_", "on_after_")):
            here = trainer.total_batches + (not self._name.endswith("_end"))
        else:
            here = trainer.current_epoch + 1
        return here % self._number == 0 if self._repeats else here == self._number

    def _is_reached(self, number: Duration, trainer: TrainerAPI, owner: Any) -> bool:
        fit, multiples = self._multiples.get(owner, (None, None))
        if multiples is None or fit is None or fit() is not trainer.recorder:
            multiples = Every(number, trainer)
            self._multiples[owner] = ref(trainer.recorder), multiples
        before = multiples.reached
        return multiples.is_due() and (self._repeats or before == 0)
