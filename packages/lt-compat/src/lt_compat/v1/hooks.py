"""Hooks of 1.x, adapted for one run; each is noted once with today's spelling."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from torch import Tensor

from lt_compat.v1.signatures import as_in_1_x
from lt_core.callback import Callback
from lt_core.errors import LtDeprecationWarning, warn
from lt_core.hooks import CALLBACK_HOOKS, MODULE_HOOKS
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["OldHooks", "adapted_callback", "adapted_module", "call_init_hooks", "log_returned", "takes", "with_methods"]

T = TypeVar("T")

_EPOCH_ENDS = {
    "training_epoch_end": ("on_train_batch_end", "on_train_epoch_end"),
    "validation_epoch_end": ("on_validation_batch_end", "on_validation_epoch_end"),
    "test_epoch_end": ("on_test_batch_end", "on_test_epoch_end"),
}
"""Hooks that got the outputs of all steps: where they are collected, and when they are called."""

_RENAMED = {
    "on_epoch_start": ("on_train_epoch_start", "on_validation_epoch_start", "on_test_epoch_start"),
    "on_epoch_end": ("on_train_epoch_end", "on_validation_epoch_end", "on_test_epoch_end"),
    "on_batch_start": ("on_train_batch_start",),
    "on_batch_end": ("on_train_batch_end",),
    "on_pretrain_routine_start": ("on_fit_start",),
    "on_pretrain_routine_end": ("on_fit_start",),
}
"""Hooks without batch arguments, and when they are called."""

_WITH_OUTPUTS = ("on_train_epoch_end", "on_validation_epoch_end", "on_test_epoch_end", "on_predict_epoch_end")
"""Hooks that from 1.0 to 1.3, the last one to 1.9, got the outputs of the epoch's steps."""

_INIT = ("on_init_start", "on_init_end")
"""Hooks of callbacks that were called when a Trainer was made."""

_ADAPTED = MODULE_HOOKS - {"forward", "training_step", "validation_step", "test_step", "predict_step"}
_BY_COUNT = re.compile("on_(validation|test|predict)_batch_")
"""Hooks of which lt fills any parameters by their places."""


class OldHooks(Callback):
    """Calls the hooks of 1.x that a run's module and callbacks define where their time is today.

    Outputs of steps are kept only where a hook wants them. ``first`` goes before all callbacks, which read what an
    epoch's end has logged, the rest after them; without ``calls`` there is nothing to adapt.
    """

    def __init__(self, trainer: TrainerAPI, module: LightningModule, callbacks: Sequence[Callback]) -> None:
        self.first = Callback()
        self._outputs: dict[str, list[list[Any]]] = {}
        self.calls: dict[tuple[str, bool], list[Callable[..., Any]]] = {}
        for old, (collects, calls) in _EPOCH_ENDS.items():
            method = getattr(module, old, None)
            if callable(method):
                _note(old, f"{calls} and keep the outputs yourself", method)
                self._outputs[old] = []
                self._add(collects, partial(self._collect, old))
                self._add(calls, partial(_hand_over, self._outputs, module, old, method), first=True)
        for old, names in _RENAMED.items():
            for owner in (*callbacks, module):
                method = _defined(owner, old)
                if callable(method) and takes(method, 0 if owner is module else 2):
                    _note(old, " or ".join(names), method)
                    call = method if owner is module else partial(method, trainer, module)
                    for name in names:
                        self._add(
                            name, partial(_without_arguments, call), first=old in ("on_epoch_start", "on_batch_start")
                        )
        for name in _WITH_OUTPUTS:
            own = [getattr(module, name), *(partial(getattr(cb, name), None, None) for cb in callbacks)]
            if wants := next((hook for hook in own if _takes_outputs(hook, name)), None):
                kept = self._outputs[name] = []
                _note(f"{name}(outputs)", f"{name}() and keep the outputs yourself", getattr(wants, "func", wants))
                word = name.removesuffix("epoch_end")
                self._add(f"{word}epoch_start", kept.clear)
                self._add(f"{word}batch_end", partial(self._collect, name))

    def with_outputs(self, name: str, hook: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return an epoch's end called with the outputs of its steps, as in 1.0 to 1.3; None for other hooks."""
        return partial(_with_kept, self._outputs, name, hook) if _takes_outputs(hook, name) else None

    def _add(self, name: str, call: Callable[..., Any], *, first: bool = False) -> None:
        calls = self.calls.setdefault((name, first), [])
        calls.append(call)
        setattr(self.first if first else self, name, partial(_call_each, calls))

    def _collect(self, old: str, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        kept = self._outputs[old]
        while len(kept) <= dataloader_idx:
            kept.append([])
        kept[dataloader_idx].append(outputs)


# functions, so that self.log finds the user's object and hook below them, the same in each run


def _with_kept(outputs: dict[str, list[list[Any]]], name: str, hook: Callable[[Any], Any]) -> None:
    kept = outputs[name]
    hook([*kept[0]] if len(kept) == 1 and name != "on_predict_epoch_end" else [[*part] for part in kept])


def _hand_over(
    outputs: dict[str, list[list[Any]]], module: LightningModule, old: str, method: Callable[[Any], Any]
) -> None:
    kept, outputs[old] = outputs[old], []
    returned = method(kept[0] if len(kept) == 1 else kept)
    if isinstance(returned, Mapping):
        log_returned(module, returned, old)


def _call_each(calls: list[Callable[..., Any]], trainer: TrainerAPI, module: LightningModule, *arguments: Any) -> None:
    for call in calls:
        call(*arguments)


# ---- returned dicts of values to log ---------------------------------------------------------------------------------

RETURNED = ("log", "progress_bar")
"""Keys in the results of steps and epoch ends up to 0.9: dicts of values to log and show."""


def log_returned(module: LightningModule, returned: Mapping[str, Any], where: str) -> None:
    """Log a method's results under ``log`` and ``progress_bar``, as up to 0.9.

    An epoch's end could return numbers beside these, for callbacks to monitor. Names that the module logs by itself,
    and what is no number, are left alone.
    """
    to_logger, to_bar = ({**part} if isinstance(part := returned.get(key), Mapping) else {} for key in RETURNED)
    others = {} if where == "training_step" else {key: v for key, v in returned.items() if key not in RETURNED}
    found = {name: value for name, value in {**others, **to_bar, **to_logger}.items() if _is_number(value)}
    slots = module.trainer.recorder.slots or {}
    mine = _LOGGED.setdefault(module, set())
    names = [name for name in found if name not in slots or name in mine]
    if new := [name for name in names if name not in mine]:
        mine.update(new)
        warn(
            f"{where} returned {', '.join(map(repr, new))} to be logged, as up to 0.9: write self.log_dict({{...}}) "
            "there, with prog_bar=True for values in the progress bar.",
            code="LT904",
            category=LtDeprecationWarning,
            about=getattr(module, where),
        )
    for name in names:
        module.log(name, found[name], prog_bar=name in to_bar, logger=name in to_logger)


_LOGGED: WeakKeyDictionary[LightningModule, set[str]] = WeakKeyDictionary()
"""For each module the names that were logged because a method returned them."""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.numel() == 1)


# ---- methods ---------------------------------------------------------------------------------------------------------


def adapted_module(module: LightningModule, hooks: OldHooks | None = None) -> LightningModule:
    """Return a module whose hooks and steps take lt's arguments; the user's own if all of them do."""
    methods = _adapted_hooks(module, LightningModule, _ADAPTED, hooks)
    for name in ("training_step", "validation_step", "test_step"):
        end = getattr(module, f"{name}_end", None)
        if callable(end):
            _note(f"{name}_end", f"its lines at the end of {name}", end)
            methods[name] = _followed(getattr(module, name), end)
    layers = getattr(module, "configure_sharded_model", None)
    if callable(layers) and not is_overridden(module, "configure_model", LightningModule):
        _note("configure_sharded_model", "configure_model", layers)
        methods["configure_model"] = layers
    return with_methods(module, methods, adapted_module)


def adapted_callback(callback: Callback, trainer: TrainerAPI, module: LightningModule, hooks: OldHooks) -> Callback:
    """Return a callback whose hooks take lt's arguments; the user's own if all of them do."""
    methods = _adapted_hooks(callback, Callback, CALLBACK_HOOKS, hooks, trainer, module)
    return with_methods(callback, {name: _past_trainer_and_module(call) for name, call in methods.items()})


def _adapted_hooks(
    owner: Any, base: type, names: Iterable[str], hooks: OldHooks | None, *first: Any
) -> dict[str, Callable[..., Any]]:
    """Return an adapter for each hook that does not take lt's arguments, without the arguments ``first``."""
    found: dict[str, Callable[..., Any]] = {}
    for name in names:
        method = getattr(owner, name, None) if is_overridden(owner, name, base) else None
        if not callable(method) or _BY_COUNT.match(name):
            continue
        hook = partial(method, *first) if first else method
        offered = list(inspect.signature(getattr(base, name)).parameters)[1 + len(first) :]
        call = hooks.with_outputs(name, hook) if hooks is not None else None
        if name == "backward":
            call = _backward(owner)
        call = call or own_state(hook, name) or as_in_1_x(hook, offered, {})
        if call is not None:
            found[name] = call
    return found


def _backward(module: LightningModule) -> Callable[..., Any] | None:
    """Return a backward that was given the optimizer too, called as today's."""

    def backward(loss: Tensor) -> Any:
        call = as_in_1_x(module.backward, ("loss",), {"optimizer": module.trainer.optimizers[0], "optimizer_idx": 0})
        return call and call(loss)

    return (
        backward if as_in_1_x(module.backward, ("loss",), {"optimizer": None, "optimizer_idx": 0}) is not None else None
    )


def with_methods(owner: T, methods: Mapping[str, Callable[..., Any]], remade: Callable[[T], T] | None = None) -> T:
    """Return an object that shares all that ``owner`` holds, with other ``methods``; a pickle is ``remade`` of it."""
    if not methods:
        return owner
    kind: Any = type(owner)
    kept = ("__module__", "__qualname__", "__doc__", "batch_hooks_every")
    space: dict[str, Any] = {name: getattr(kind, name) for name in kept if hasattr(kind, name)}
    for name, call in methods.items():
        # an attribute of the object would hide a method of its class
        space[name] = _as_property(call) if name in vars(owner) else _as_method(call, getattr(kind, name))
    if remade is not None:
        space["__reduce_ex__"] = lambda self, protocol: (remade, (owner,))
    adapted: T = object.__new__(type(kind)(kind.__name__, (kind,), space))
    object.__setattr__(adapted, "__dict__", vars(owner))
    return adapted


def _as_property(call: Callable[..., Any]) -> property:
    return property(lambda self: call)


def _as_method(call: Callable[..., Any], own: Any) -> Callable[..., Any]:
    def method(*arguments: Any) -> Any:
        return call(*arguments[1:])

    made: Any = method
    signature = inspect.signature(call)
    owner = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    made.__signature__ = signature.replace(parameters=[owner, *signature.parameters.values()])
    made.__wrapped__ = own  # warnings show this method
    return method


def _past_trainer_and_module(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda trainer, module, *arguments: call(*arguments)


def _followed(step: Callable[..., Any], end: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a step that hands its output through its end."""

    def whole(*arguments: Any) -> Any:
        return end(step(*arguments))

    whole.__signature__ = inspect.signature(step)  # type: ignore[attr-defined]
    return whole


def call_init_hooks(trainer: TrainerAPI) -> None:
    """Call ``on_init_start(trainer)`` and ``on_init_end(trainer)`` of the callbacks of a Trainer that was just made."""
    for name in _INIT:
        for callback in trainer.callbacks:
            method = _defined(callback, name)
            if callable(method) and takes(method, 1):
                _note(name, "setup(trainer, pl_module, stage)", method)
                method(trainer)


# ---- a callback's own state, as up to 1.5 ----------------------------------------------------------------------------

_STATE_NAMES = ("callback_state", "checkpointed_state")
"""Names of ``on_load_checkpoint``'s argument while it was the callback's own state."""


def own_state(hook: Callable[..., Any], name: str) -> Callable[..., Any] | None:
    """Return an adapter to whole checkpoints for a method of a callback's own state; else None."""
    if not isinstance(hook, partial) or not isinstance(callback := getattr(hook.func, "__self__", None), Callback):
        return None
    own: Callable[..., Any] = hook.func
    if name == "on_save_checkpoint" and not takes(own, 3) and takes(own, 2):
        return lambda checkpoint: hook()
    if name != "on_load_checkpoint" or not any(name in _STATE_NAMES for name in inspect.signature(own).parameters):
        return None

    def load(checkpoint: Mapping[str, Any]) -> None:
        states = checkpoint.get("callbacks") or {}
        state = states.get(callback.state_key, states.get(type(callback).__qualname__))
        if state:
            own(*(hook.args if takes(own, 3) else ()), copy.deepcopy(state))

    return load


# ---- signatures ------------------------------------------------------------------------------------------------------


_NOTED: WeakKeyDictionary[Callable[..., Any], set[str]] = WeakKeyDictionary()
"""Functions that were noted, by the names of their hooks: hooks are adapted several times a run, for each save too."""


def _note(old: str, new: str, method: Callable[..., Any]) -> None:
    noted = _NOTED.setdefault(getattr(method, "__func__", method), set())
    if old not in noted:
        text = f"The hook {old} is one of 1.x: write {new}."
        warn(text, code="LT904", category=LtDeprecationWarning, about=method)
        noted.add(old)


def _defined(owner: object, name: str) -> Any:
    """Return an attribute of the class or the object, without asking ``__getattr__``."""
    return getattr(owner, name, None) if hasattr(type(owner), name) or name in vars(owner) else None


def _takes_outputs(hook: Callable[..., Any], name: str) -> bool:
    """Return whether an epoch's end wants the outputs of its steps: ``on_train_epoch_end(self, outputs)``."""
    return name in _WITH_OUTPUTS and not takes(hook, 0) and takes(hook, 1)


def takes(method: Callable[..., Any], count: int) -> bool:
    """Return whether a method can be called with so many arguments; one that cannot is the user's own affair."""
    try:
        inspect.signature(method).bind(*[None] * count)
    except (TypeError, ValueError):  # a callback's hook that does not even take the Trainer, a built-in function
        return False
    return True


def _without_arguments(call: Callable[[], Any], *arguments: Any) -> None:
    call()
