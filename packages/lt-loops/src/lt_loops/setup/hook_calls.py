"""The hooks that a run calls, looked up once, so that undefined ones cost nothing; and users' own events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lt_core.callback import Callback
from lt_core.dialect import Policy
from lt_core.errors import ConfigError, HookError
from lt_core.hooks import CALLBACK_HOOKS, MODULE_HOOKS
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.profiler import Profiler
from lt_core.trainer import TrainerAPI
from lt_loops.arguments.rules import is_number
from lt_loops.setup.signatures import (
    CURRENT,
    BoundHook,
    Called,
    Hook,
    adapted,
    before_run,
    why_unfit,
)


class HookCalls:
    """The callables of each hook, in order: callbacks, then the module.

    ``hooks["on_train_start"]`` is a tuple, made at the first use and kept until :meth:`forget`. Callbacks that monitor
    come after the module at a training epoch's end: :meth:`monitors`. Dialects may have others called in place of the
    user's module and callbacks (:meth:`lt_core.dialect.Dialect.before_run`).
    """

    def __init__(
        self,
        trainer: TrainerAPI,
        module: LightningModule,
        callbacks: list[Callback],
        policy: Policy,
        profiler: Profiler | None,
    ) -> None:
        """Look nothing up yet; ``profiler`` wraps each hook, None where there is none."""
        self._trainer, self._module, self._callbacks = trainer, module, callbacks
        self._policy, self._profiler = policy, profiler
        self._found: dict[str, tuple[Hook, ...]] = {}
        self._own: dict[str, list[Hook]] = {}
        self._asked_for: list[Callback] | None = None
        self._checked: tuple[Called, HookError | None]

    def __getitem__(self, name: str) -> tuple[Hook, ...]:
        found = self._found.get(name)
        if found is None:
            calls = [
                *self._own.get(name, ()),
                *self._of_callbacks(name, False if name == "on_train_epoch_end" else None),
            ]
            (module, _), _ = self.checked
            if is_overridden(module, name, LightningModule):
                calls.append(self._fitted(module, name, getattr(module, name)))
            found = self._found[name] = tuple(calls)
        return found

    def call_first(self, name: str, call: Hook) -> None:
        self._own.setdefault(name, []).append(call)
        self.forget()

    def monitors(self) -> list[Hook]:
        """Return the ``on_train_epoch_end`` of the callbacks that monitor."""
        return self._of_callbacks("on_train_epoch_end", monitors=True)

    def forget(self) -> None:
        """Look everything up again; callbacks or methods have changed."""
        self._found.clear()

    @property
    def checked(self) -> tuple[Called, HookError | None]:
        """Module and callbacks with the hooks that are called, and the error of one that does not fit.

        Looked at once, and again for other callbacks.
        """
        if self._asked_for != self._callbacks:
            self._checked = before_run(self._trainer, self._module, self._callbacks, self._policy)
            self._asked_for = list(self._callbacks)
        return self._checked

    def _of_callbacks(self, name: str, monitors: bool | None) -> list[Hook]:
        """Return a hook of the callbacks that monitor (True), of the others (False), or of all."""
        return [
            self._fitted(cb, name, BoundHook(getattr(cb, name), self._trainer, self._module))
            for cb in self.checked[0][1]
            if cb.monitors == monitors or monitors is None
            if is_overridden(cb, name, Callback)
        ]

    def _fitted(self, owner: object, name: str, hook: Hook) -> Hook:
        """Return a hook that takes lt's arguments, and is measured by the profiler."""
        hook = adapted(hook, name, self._policy) if name in CURRENT else hook
        return hook if self._profiler is None else self._profiler.wrap(f"{type(owner).__name__}.{name}", hook)


def callback_hook(
    trainer: TrainerAPI, module: LightningModule, callback: Callback, name: str, policy: Policy
) -> Callable[[dict[str, Any]], Any] | None:
    """Return a callback's hook that takes the checkpoint, or None; it may be called where no run is going on."""
    if not is_overridden(callback, name, Callback):
        return None
    hook = BoundHook(getattr(callback, name), trainer, module)
    if why_unfit(hook, name, ("checkpoint",), policy) is None:
        return hook
    (_, (called, *_)), _ = before_run(trainer, module, [callback], policy)
    return BoundHook(getattr(called, name), trainer, module)


def call_event(trainer: TrainerAPI, event: str, *args: Any, **kwargs: Any) -> None:
    """Call the method ``event`` of each callback and of the module; see ``Trainer.call``."""
    if event in CALLBACK_HOOKS | MODULE_HOOKS:
        raise ConfigError(
            f"trainer.call({event!r}): this is a hook, which the loop calls. Give your event another name.",
            code="LT234",
        )
    module = trainer.lightning_module
    for owner, first in (*((callback, (trainer, module)) for callback in trainer.callbacks), (module, ())):
        if callable(method := getattr(owner, event, None)):
            method(*first, *args, **kwargs)


def priority_of(part: Any) -> float:
    """Return the place of a part among others, as it says; a ConfigError where it is no number."""
    if is_number(part.priority):
        return part.priority
    name = (part if isinstance(part, type) else type(part)).__name__
    raise ConfigError(f"{name}.priority is {part.priority!r}: expected a number.", code="LT759")


def order_callbacks(callbacks: list[Callback]) -> list[Callback]:
    """Return callbacks in the order in which they are called.

    First by ``priority``, then in the user's order, with monitors (checkpoints, early stopping) last; a
    callback's ``before`` and ``after`` (names of classes) move it past the ones that they name.
    """
    ordered = sorted(callbacks, key=lambda cb: (priority_of(cb), is_overridden(cb, "on_saved", Callback)))
    for _ in range(len(ordered)):
        moved = False
        for callback in list(ordered):
            place = ordered.index(callback)
            names = [{kind.__name__ for kind in type(cb).__mro__} for cb in ordered]
            others = [(i, kinds) for i, kinds in enumerate(names) if i != place]
            earliest = max((i + 1 for i, kinds in others if kinds & set(callback.after)), default=0)
            latest = min((i for i, kinds in others if kinds & set(callback.before)), default=len(ordered))
            target = earliest if place < earliest else min(place, latest)
            if target != place:
                ordered.insert(target - (target > place), ordered.pop(place))
                moved = True
        if not moved:
            break
    return ordered
