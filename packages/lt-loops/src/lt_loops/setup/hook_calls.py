"""Which hooks a run calls: looked up once, so that one that nobody defines costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from lt_core.callback import Callback
from lt_core.module import LightningModule
from lt_core.overrides import is_overridden
from lt_loops.fitted import CURRENT, fitted
from lt_loops.old_hooks import OldHooks

if TYPE_CHECKING:
    from lt_core.profiler import Profiler
    from lt_core.trainer import TrainerAPI

__all__ = ["HookCalls", "order_callbacks"]


class HookCalls:
    """The callables of each hook, in order: callbacks, then the module.

    ``hooks["on_train_start"]`` is a tuple, made at the first use and kept until :meth:`forget`. Callbacks that monitor
    come after the module at a training epoch's end; they are ``hooks["on_train_epoch_end/monitors"]``.
    """

    __slots__ = ("_callbacks", "_found", "_module", "_old", "_profiler", "_trainer")

    def __init__(
        self, trainer: TrainerAPI, module: LightningModule, callbacks: list[Callback], profiler: Profiler | None
    ) -> None:
        """Look nothing up yet; ``profiler`` wraps each hook, None where there is none."""
        self._trainer, self._module, self._callbacks, self._profiler = trainer, module, callbacks, profiler
        self._found: dict[str, tuple[Callable[..., Any], ...]] = {}
        self._old = OldHooks(trainer, module, callbacks)

    def __getitem__(self, name: str) -> tuple[Callable[..., Any], ...]:
        """Return the callables of hook ``name``."""
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = tuple(self._look_up(name))
        return found

    def forget(self) -> None:
        """Look everything up again; callbacks or methods have changed."""
        self._found.clear()
        self._old.look_again()

    def _look_up(self, name: str) -> list[Callable[..., Any]]:
        module = self._module
        name, _, part = name.partition("/")
        split = name == "on_train_epoch_end"
        calls = [
            self._of_callback(cb, name) for cb in self._callbacks if not split or cb.monitors == (part == "monitors")
        ]
        if not part:
            calls += self._old[name]
        if not part and is_overridden(module, name, LightningModule):
            hook = getattr(module, name)
            calls.append(self._measured(f"{type(module).__name__}.{name}", self._fitted(hook, name)))
        return [call for call in calls if call is not None]

    def _of_callback(self, callback: Callback, name: str) -> Callable[..., Any] | None:
        if not is_overridden(callback, name, Callback):
            return None
        hook: Callable[..., Any] = partial(getattr(callback, name), self._trainer, self._module)
        hook = self._fitted(hook, name)
        return self._measured(f"{type(callback).__name__}.{name}", hook)

    def _fitted(self, hook: Callable[..., Any], name: str) -> Callable[..., Any]:
        return fitted(hook, name) if name in CURRENT else self._old.with_outputs(hook, name)

    def _measured(self, name: str, hook: Callable[..., Any]) -> Callable[..., Any]:
        return hook if self._profiler is None else self._profiler.wrap(name, hook)


def order_callbacks(callbacks: list[Callback]) -> list[Callback]:
    """Return callbacks in the order in which they are called.

    First by ``priority``, then in the user's order, with those that monitor (checkpoints, early stopping) last; a
    callback's ``before`` and ``after`` (names of classes) move it past the ones that they name.
    """
    ordered = sorted(callbacks, key=lambda cb: (cb.priority, _saves(cb)))
    for _ in range(len(ordered)):
        moved = False
        for callback in list(ordered):
            place = ordered.index(callback)
            others = [(i, _class_names(cb)) for i, cb in enumerate(ordered) if cb is not callback]
            earliest = max((i + 1 for i, kinds in others if kinds & set(callback.after)), default=0)
            latest = min((i for i, kinds in others if kinds & set(callback.before)), default=len(ordered))
            target = earliest if place < earliest else min(place, latest)
            if target != place:
                ordered.insert(target - (target > place), ordered.pop(place))
                moved = True
        if not moved:
            break
    return ordered


def _saves(callback: Callback) -> bool:
    return is_overridden(callback, "on_saved", Callback)


def _class_names(callback: Callback) -> set[str]:
    return {kind.__name__ for kind in type(callback).__mro__}
