"""Hooks that lt could not call as they are defined: found before a run, not when their turn comes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lt_core.callback import Callback
from lt_core.data import DataSource
from lt_core.errors import HookError
from lt_core.hooks import CALLBACK_HOOKS, DATA_HOOKS, MODULE_HOOKS
from lt_core.module import LightningModule
from lt_core.overrides import is_overridden
from lt_loops.arguments.problems import shown
from lt_loops.fitted import CURRENT, fitted
from lt_loops.old_hooks import takes_outputs, takes_own_state
from lt_loops.setup.signatures import called, count_arguments, described, takes_first, unfit

if TYPE_CHECKING:
    from lt_loops.run.frame import Run

__all__ = ["check_signatures", "check_takes_index"]

_EVALUATION = ("validation", "test", "predict")
_OFFERED = ("batch", "batch_idx", "dataloader_idx")
_BY_COUNT = {
    **{f"{word}_step": _OFFERED for word in _EVALUATION},
    **{f"on_{word}_batch_start": _OFFERED for word in _EVALUATION},
    **{f"on_{word}_batch_end": ("outputs", *_OFFERED) for word in _EVALUATION},
}
"""Hooks that may take fewer arguments than there are."""

_ELSEWHERE = frozenset({"training_step", "forward", "optimizer_step", "backward"})
"""Looked at where the plan of the loop is made, which knows what they get there."""

_FITTING: WeakKeyDictionary[Callable[..., Any], set[str]] = WeakKeyDictionary()
"""Methods that fit, with the hooks that they are: a look at a signature takes 30 microseconds."""

_PROPERTIES = frozenset(name for name in MODULE_HOOKS if not callable(getattr(LightningModule, name)))
"""Names that sound like hooks."""


def check_signatures(run: Run) -> None:
    """Look at every hook that the module, the datamodule and the callbacks define.

    Raises:
        HookError: for one with parameters that nothing fills; shows its signature and the arguments that lt has.
    """
    for name in sorted(MODULE_HOOKS - _ELSEWHERE - _PROPERTIES):
        if is_overridden(run.module, name, LightningModule):
            _check_once(getattr(run.module, name), name, getattr(LightningModule, name))
    for name in sorted(DATA_HOOKS) if run.datamodule is not None else ():
        if is_overridden(run.datamodule, name, DataSource):
            _check_once(getattr(run.datamodule, name), name, getattr(DataSource, name))
    for callback in run.callbacks:
        for name in sorted(CALLBACK_HOOKS):
            if is_overridden(callback, name, Callback):
                _check_once(getattr(callback, name), name, getattr(Callback, name), (run.trainer, run.module))


def check_takes_index(module: LightningModule, method: str) -> None:
    """Raise for a step that is to read several loaders and does not take ``dataloader_idx``.

    Raises:
        HookError: which says how to write it.
    """
    if is_overridden(module, method, LightningModule) and count_arguments(getattr(module, method), _OFFERED) < 3:
        raise HookError(
            f"There are several loaders, but {type(module).__name__}.{method} does not take dataloader_idx. Write "
            f"{method}(self, batch, batch_idx, dataloader_idx=0).",
            code="LT212",
        )


def _check_once(hook: Callable[..., Any], name: str, base: Callable[..., Any], first: tuple[Any, ...] = ()) -> None:
    """Check a hook, but for a method that was found to fit in an earlier run; callbacks' get ``first`` where asked."""
    plain = getattr(hook, "__func__", None)
    if plain is not None and name in _FITTING.get(plain, ()):
        return
    if first and "pl_module" in inspect.signature(base).parameters:
        _check(partial(hook, *first), name, base, skipped=3)
    else:
        _check(hook, name, base, skipped=1)
    if plain is not None:
        _FITTING.setdefault(plain, set()).add(name)


def _check(function: Callable[..., Any], name: str, base: Callable[..., Any], skipped: int) -> None:
    """Raise for a hook that does not fit; ``skipped`` are the parameters of ``base`` that are bound already."""
    if not callable(function.func if isinstance(function, partial) else function):
        raise HookError(f"{name} is {shown(function)}; expected a method.", code="LT211")
    if isinstance(function, partial) and takes_own_state(function.func, name):
        return
    if isinstance(function, partial) and not takes_first(function.func, 2):
        raise unfit(function, name, list(inspect.signature(base).parameters)[skipped:])
    if name in CURRENT:
        fitted(function, name)
    elif name in _BY_COUNT:
        count_arguments(function, _BY_COUNT[name])
    elif not takes_outputs(function, name):
        _bind(function, name, list(inspect.signature(base).parameters)[skipped:])


def _bind(function: Callable[..., Any], name: str, offered: list[str]) -> None:
    try:
        signature = inspect.signature(function)
        signature.bind(*offered)
    except ValueError:  # no signature can be told, as of built-in functions
        return
    except TypeError:
        some = offered or isinstance(function, partial)
        remedy = "Take these parameters, in this order." if some else "Take no parameters."
        raise HookError(
            f"{described(function)} does not fit: lt calls {called(function, name, offered)}. {remedy}",
            code="LT211",
        ) from None
