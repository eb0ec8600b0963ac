"""Mistakes found before a run: missing steps and loaders, monitors of nothing, near misses of names."""

import inspect
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache

from torch import nn

from lt_core import plugins
from lt_core.callback import Callback
from lt_core.data import DataSource
from lt_core.dialect import Policy, spoken
from lt_core.errors import ConfigError, HookError, did_you_mean, nearest_name, warn
from lt_core.hooks import CALLBACK_HOOKS, MODULE_HOOKS
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.states import Stage
from lt_core.step import Step
from lt_loops.arguments.limits import Limits
from lt_loops.arguments.table import ARGUMENTS
from lt_loops.setup.hooks import OFFERED, adapted, defines, taken_places
from lt_loops.setup.loaders import Loaders
from lt_loops.setup.scheduler_config import SchedulerConfig


def check_monitors(logged: Iterable[str], callbacks: Sequence[Callback], schedulers: Iterable[SchedulerConfig]) -> None:
    """Warn, after the sanity check, of monitors that look like metrics of validation and were not ``logged`` in it."""
    names = sorted(logged)
    waiting = [(type(cb).__name__, getattr(cb, "monitor", None)) for cb in callbacks if cb.monitors]
    waiting += [(f"The scheduler {type(s.scheduler).__name__}", s.monitor) for s in schedulers if s.reduce_on_plateau]
    for who, monitor in waiting:
        if not isinstance(monitor, str) or monitor in names:
            continue
        if monitor.startswith("val") or nearest_name(monitor, names, slip=True):
            warn(
                f"{who} monitors {monitor!r}, and the validation batches of the sanity check did not log it. They "
                f"logged: {', '.join(map(repr, names)) or 'nothing'}.{did_you_mean(monitor, names)} If it is not there "
                "when it is due, the run ends with an error.",
                code="LT572",
            )


def check_manual(module: LightningModule, limits: Limits) -> None:
    """Refuse to accumulate where the module steps its optimizers itself.

    Raises:
        ConfigError: which says how to accumulate in ``training_step``.
    """
    asked = limits.accumulate_grad_batches
    if module.automatic_optimization or (max(asked.values()) if isinstance(asked, dict) else asked) in ("auto", 1):
        return
    total = limits.global_batch_size
    given = (
        f"accumulate_grad_batches={asked}" if total is None else f"global_batch_size={total}, {asked} batches a step"
    )
    raise ConfigError(
        f"{given}, and {type(module).__name__} has automatic_optimization=False: its training_step says when "
        "optimizers step. Leave the argument out, divide the loss by N in training_step, and call step() and "
        "zero_grad() where (batch_idx + 1) % N == 0.",
        code="LT530",
    )


def check_steps(
    stage: str, module: LightningModule, loaders: Loaders, limits: Limits, steps: Iterable[Step], policy: Policy
) -> None:
    """Refuse missing steps and loaders, and limits that do not go with them, before the run.

    ``steps``: steps of other packages that arguments and the strategy ask for.
    """
    name = type(module).__name__
    if stage == "fit":
        for needed in ("training_step", "configure_optimizers"):
            if not defines(module, needed):
                raise HookError(f"fit needs {name}.{needed}: define it in the module.", code="LT214")
        # the plan of the loop adapts these, and is made when the data is there and a validation has run
        known = {*spoken(), *plugins.names("steps")}
        if not any(f"parameter.{name}" in known for name in inspect.signature(module.training_step).parameters):
            offered = (*OFFERED[:2], *(name for step in steps for name in step.arguments))
            taken_places(module.training_step, offered, policy)
        for hook in ("optimizer_step", "backward") if module.automatic_optimization else ():
            if defines(module, hook):
                adapted(getattr(module, hook), hook, policy)
        check_manual(module, limits)
        has_step = defines(module, "validation_step")
        has_loader = loaders.has("validate")
        if has_loader and not has_step:
            warn(
                f"There is a validation loader, but {name} has no validation_step: validation is skipped.",
                code="LT215",
            )
        elif has_step and not has_loader and limits.limit_val_batches and "validate" in loaders.given:
            warn(
                f"{name} has a validation_step, but val_dataloaders= holds no loader: validation is skipped.",
                code="LT215",
            )
    elif not defines(module, needed := Stage(stage).step):
        calls_module = stage == "predict" and module.predict_step is not None
        if not calls_module or not any(is_overridden(module, own, nn.Module) for own in ("forward", "__call__")):
            either = f"{needed} or forward" if calls_module else needed
            raise HookError(f"{stage} needs {name}.{either}: define it in the module.", code="LT214")
    if stage != "fit" and stage not in loaders.given and not loaders.has(stage):
        raise HookError(
            f"{stage} has no data: pass dataloaders=, a datamodule, or define {Stage(stage).loader} in the module.",
            code="LT403",
        )


# ---- near misses of names --------------------------------------------------------------------------------------------


def warn_of_typos(module: LightningModule, datamodule: DataSource | None, callbacks: list[Callback]) -> None:
    """Warn of near misses of hooks, and of attributes that lt reads, in the user's objects."""
    former = spoken()
    _warn_of_hooks(module, LightningModule, MODULE_HOOKS | former)
    for owner in filter(None, (module, datamodule)):
        _warn_of_settings(owner)
    for callback in callbacks:
        _warn_of_hooks(callback, Callback, CALLBACK_HOOKS | former)


_SETTINGS = (
    *("automatic_optimization", "example_input_array", "prepare_data_per_node"),
    *("needs_closure", "strict_loading", "trains_without_loss"),
)
"""Attributes of a module and a datamodule that lt reads, beside their methods."""


def _warn_of_hooks(owner: object, base: type, known: frozenset[str]) -> None:
    """Warn of public methods of a module's or callback's class that are nearly a hook of ``base``: one
    letter off, a plural, an old order of words.
    """
    kinds = [kind for kind in type(owner).__mro__ if kind not in base.__mro__ and _is_the_users(kind)]
    for name in dict.fromkeys(name for kind in kinds for name, value in vars(kind).items() if callable(value)):
        like_a_hook = name.startswith(_HEADS) or name.endswith(_TAILS)
        if name in known or name.startswith("_") or hasattr(base, name) or not like_a_hook:
            continue
        near = nearest_name(name, known, slip=True)
        if near is not None:
            warn(
                f"{type(owner).__name__}.{name} is not a hook and is never called. Did you mean {near!r}? "
                "If it is a method of your own, another name avoids this note.",
                code="LT201",
                about=getattr(type(owner), name),
            )


_HEADS = ("on_", "configure_", "optimizer_", "lr_", "transfer_", "prepare_")
_TAILS = ("_step", "_steps", "_dataloader", "_dataloaders", "_data", "_start", "_end", "_hook")


def _warn_of_settings(owner: object) -> None:
    """Warn of attributes of a module or datamodule that are nearly, but not quite, one that lt reads."""
    kinds = filter(_is_the_users, type(owner).__mro__)
    names = {name for part in (owner, *kinds) for name in vars(part)}
    for name in sorted(names.difference(_SETTINGS, _TORCHS)):
        near = nearest_name(name, _SETTINGS, slip=True)
        if near is not None:
            warn(
                f"{type(owner).__name__}.{name} is set, and nothing reads it. Did you mean {near!r}? If it is an "
                "attribute of your own, another name avoids this note.",
                code="LT184",
            )


_TORCHS = frozenset(vars(nn.Module()))
"""Attributes that torch sets on each module."""


def _is_the_users(kind: type) -> bool:
    """Return whether a class is neither lt's nor an installed package's, whose names its users cannot change."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return not (kind.__module__.startswith(("builtins", "lt_")) or re.search(r"[/\\](site|dist)-packages[/\\]", file))


def check_attribute(kind: type, name: str) -> None:
    """Look at the name of an attribute that is set for the first time.

    Raises:
        AttributeError: for one that only the constructor can set.
    """
    known = inspect.getattr_static(kind, name, None)
    if isinstance(known, property) and known.fset is None:
        argument = name in ARGUMENTS
        remedy = f"Give it to the Trainer: Trainer({name}=...)." if argument else "It can only be read."
        raise AttributeError(f"trainer.{name} cannot be set. {remedy}")
    if known is not None or any(name in vars(part) for part in kind.__mro__):
        return
    near = nearest_name(name, _settable(kind), slip=True)
    if near is not None:
        warn(
            f"trainer.{name} is set, and nothing reads it. Did you mean {near!r}? If it is an attribute of your own, "
            "another name avoids this note.",
            code="LT183",
        )
    elif name in ARGUMENTS:
        warn(
            f"trainer.{name} is set after the Trainer was made, and nothing reads it. Write Trainer({name}=...).",
            code="LT183",
        )


@cache
def _settable(kind: type) -> tuple[str, ...]:
    """Return the public attributes of a Trainer's class that can be set."""
    public = ((name, getattr(kind, name)) for name in dir(kind) if not name.startswith("_"))
    return tuple(name for name, member in public if hasattr(member, "__set__") and getattr(member, "fset", member))
