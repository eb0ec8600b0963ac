"""Hooks of 1.x that still work where a user defines them; each is told once with today's spelling."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from torch import Tensor

from lt_core.callback import Callback
from lt_core.errors import LtDeprecationWarning, warn
from lt_core.module import LightningModule
from lt_core.overrides import is_overridden

if TYPE_CHECKING:
    from lt_core.trainer import TrainerAPI

__all__ = [
    "OLD_HOOKS",
    "OldHooks",
    "call_init_hooks",
    "load_callback",
    "log_returned",
    "model_maker",
    "save_callback",
    "takes_outputs",
    "takes_own_state",
    "with_step_end",
]

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


_WITH_OUTPUTS = ("on_train_epoch_end", "on_validation_epoch_end", "on_test_epoch_end")
"""Hooks that from 1.0 to 1.3 got the outputs of the epoch's steps."""

_INIT = ("on_init_start", "on_init_end")
"""Hooks of callbacks that were called when a Trainer was made."""

_STEP_ENDS = ("training_step_end", "validation_step_end", "test_step_end")
"""Methods of a module that got what the step returned, and returned what counts."""

OLD_HOOKS: frozenset[str] = frozenset(
    (*_EPOCH_ENDS, *_RENAMED, *_INIT, *_STEP_ENDS, "tbptt_split_batch", "configure_sharded_model")
)
"""The names of all of them."""


class OldHooks:
    """Finds the hooks of 1.x that a run's module and callbacks define, and what to call for each hook of today.

    Outputs of steps are kept only where a hook wants them.
    """

    def __init__(self, trainer: TrainerAPI, module: LightningModule, callbacks: list[Callback]) -> None:
        """Look once; where nobody defines any, ``old[name]`` is an empty list."""
        self._trainer, self._module, self._callbacks = trainer, module, callbacks
        self._outputs: dict[str, list[list[Any]]] = {}
        self._told: set[str] = set()
        self.look_again()

    def look_again(self) -> None:
        """Find the hooks anew: callbacks may have changed. Outputs kept so far stay."""
        module = self._module
        self._calls: dict[str, list[Callable[..., Any]]] = {}
        for old, (collects, calls) in _EPOCH_ENDS.items():
            method = getattr(module, old, None)
            if callable(method):
                self._tell(old, f"{calls} and keep the outputs yourself", method)
                self._outputs.setdefault(old, [])
                self._add(collects, partial(self._collect, old))
                self._add(calls, partial(self._hand_over, old, method))
        for old, names in _RENAMED.items():
            for owner in (*self._callbacks, module):
                method = getattr(owner, old, None)
                if callable(method) and _takes(method, 0 if owner is module else 2):
                    self._tell(old, " or ".join(names), method)
                    call = method if owner is module else partial(method, self._trainer, module)
                    for name in names:
                        self._add(name, partial(_without_arguments, call))
        for name in _WITH_OUTPUTS:
            own = [getattr(module, name), *(partial(getattr(cb, name), None, None) for cb in self._callbacks)]
            wants = next((hook for hook in own if takes_outputs(hook, name)), None)
            if wants is not None:
                self._keep_outputs(name, wants)

    def __getitem__(self, name: str) -> list[Callable[..., Any]]:
        """Return what is to be called at hook ``name``, before the module's own."""
        return self._calls.get(name, [])

    def with_outputs(self, hook: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return ``hook`` called with the outputs of the epoch's steps where it wants them, as in 1.0 to 1.3."""
        if not takes_outputs(hook, name):
            return hook
        return partial(self._with_kept, name, hook)

    def _keep_outputs(self, name: str, hook: Callable[..., Any]) -> None:
        word = name.removesuffix("epoch_end")
        self._tell(f"{name}(outputs)", f"{name}() and keep the outputs yourself", getattr(hook, "func", hook))
        self._outputs.setdefault(name, [])
        self._add(f"{word}epoch_start", self._outputs[name].clear)
        self._add(f"{word}batch_end", partial(self._collect, name))

    def _with_kept(self, name: str, hook: Callable[[Any], Any]) -> None:
        kept = self._outputs[name]
        hook(list(kept[0]) if len(kept) == 1 else [list(part) for part in kept])

    def _add(self, name: str, call: Callable[..., Any]) -> None:
        self._calls.setdefault(name, []).append(call)

    def _collect(self, old: str, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        kept = self._outputs[old]
        while len(kept) <= dataloader_idx:
            kept.append([])
        kept[dataloader_idx].append(outputs)

    def _hand_over(self, old: str, method: Callable[[Any], Any]) -> None:
        kept, self._outputs[old] = self._outputs[old], []
        returned = method(kept[0] if len(kept) == 1 else kept)
        if isinstance(returned, Mapping):
            log_returned(self._module, returned, old)

    def _tell(self, old: str, new: str, method: Callable[..., Any]) -> None:
        if old in self._told:
            return
        self._told.add(old)
        _note(old, new, method)


RETURNED = ("log", "progress_bar")
"""Keys of what a step or an epoch's end returned up to 0.9: dicts of what was to be logged and shown."""


def log_returned(module: LightningModule, returned: Mapping[str, Any], where: str) -> None:
    """Log what a method returned under ``log`` and ``progress_bar``, as up to 0.9.

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
            "there, with prog_bar=True for what the progress bar shows.",
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


def with_step_end(module: LightningModule, method: str, step: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``step`` handing its output through the module's ``<method>_end``, where there is one."""
    end = getattr(module, f"{method}_end", None)
    if f"{method}_end" not in _STEP_ENDS or not callable(end):
        return step
    _note(f"{method}_end", f"its lines at the end of {method}", end)

    def whole(*arguments: Any) -> Any:
        return end(step(*arguments))

    return whole


def model_maker(module: LightningModule) -> Callable[[], None] | None:
    """Return what makes the module's layers where they will live: ``configure_model``, also by its name of 1.x."""
    if is_overridden(module, "configure_model", LightningModule):
        return module.configure_model
    old: Callable[[], None] | None = getattr(module, "configure_sharded_model", None)
    if old is not None:
        _note("configure_sharded_model", "configure_model", old)
    return old


def call_init_hooks(trainer: TrainerAPI) -> None:
    """Call ``on_init_start(trainer)`` and ``on_init_end(trainer)`` of the callbacks of a Trainer that was just made."""
    for name in _INIT:
        for callback in trainer.callbacks:
            method = getattr(callback, name, None)
            if callable(method) and _takes(method, 1):
                _note(name, "setup(trainer, pl_module, stage)", method)
                method(trainer)


_STATE_NAMES = ("callback_state", "checkpointed_state")
"""What the argument of ``on_load_checkpoint`` was called while it was the callback's own state."""


def takes_own_state(hook: Callable[..., Any], name: str) -> bool:
    """Return whether a callback's method returns or takes its own state, as up to 1.5, and not the whole checkpoint."""
    if name == "on_save_checkpoint":
        return not _takes(hook, 3) and _takes(hook, 2)
    return name == "on_load_checkpoint" and any(name in _STATE_NAMES for name in inspect.signature(hook).parameters)


def save_callback(callback: Callback, trainer: TrainerAPI, module: LightningModule, tree: dict[str, Any]) -> None:
    """Call ``on_save_checkpoint``; a dict that it returns is the callback's state, as in 1.x."""
    hook: Callable[..., Any] = callback.on_save_checkpoint
    own = is_overridden(callback, "on_save_checkpoint", Callback) and takes_own_state(hook, "on_save_checkpoint")
    returned = hook(trainer, module) if own else hook(trainer, module, tree)
    if isinstance(returned, dict):
        tree["callbacks"].setdefault(callback.state_key, returned)


def load_callback(callback: Callback, trainer: TrainerAPI, module: LightningModule, tree: dict[str, Any]) -> None:
    """Call ``on_load_checkpoint`` with the checkpoint, or with the callback's own state where it takes that."""
    hook: Callable[..., Any] = callback.on_load_checkpoint
    if not (is_overridden(callback, "on_load_checkpoint", Callback) and takes_own_state(hook, "on_load_checkpoint")):
        hook(trainer, module, tree)
        return
    states = tree.get("callbacks") or {}
    state = states.get(callback.state_key, states.get(type(callback).__qualname__))
    if state:
        first = (trainer, module) if _takes(hook, 3) else ()
        hook(*first, copy.deepcopy(state))


def _note(old: str, new: str, method: Callable[..., Any]) -> None:
    text = f"The hook {old} is one of 1.x: write {new}."
    warn(text, code="LT904", category=LtDeprecationWarning, about=method)


def takes_outputs(hook: Callable[..., Any], name: str) -> bool:
    """Return whether an epoch's end wants the outputs of its steps: ``on_train_epoch_end(self, outputs)``."""
    return name in _WITH_OUTPUTS and not _takes(hook, 0) and _takes(hook, 1)


def _takes(method: Callable[..., Any], count: int) -> bool:
    """Return whether a method can be called with so many arguments; one that cannot is the user's own affair."""
    try:
        inspect.signature(method).bind(*[None] * count)
    except TypeError:
        return False
    return True


def _without_arguments(call: Callable[[], Any], *arguments: Any) -> None:
    call()
