"""What is refused of hooks, steps and monitors before a run: missing, or not to be called as they are defined."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

from torch import nn

from lt_core import plugins
from lt_core.callback import Callback
from lt_core.data import DataSource
from lt_core.dialect import dialects, spoken, spoken_by
from lt_core.errors import ConfigError, HookError, did_you_mean, nearest_name, warn
from lt_core.hooks import CALLBACK_HOOKS, DATA_HOOKS, MODULE_HOOKS
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.states import Stage
from lt_core.step import Step
from lt_core.trainer import TrainerAPI
from lt_loops.arguments.limits import Limits
from lt_loops.arguments.problems import shown
from lt_loops.former_names import HOOKS, understood_by
from lt_loops.setup.loaders import Loaders
from lt_loops.setup.scheduler_config import SchedulerConfig
from lt_loops.setup.signatures import (
    CURRENT,
    OFFERED,
    BoundHook,
    Hook,
    adapted,
    former_parameters,
    inner,
    known_uses,
    taken_places,
    takes,
    unfit,
)

_EVALUATION = [stage.hook for stage in Stage if stage is not Stage.TRAIN]
_BY_COUNT = {
    **{f"{word}_step": OFFERED for word in _EVALUATION},
    **{f"on_{word}_batch_start": OFFERED for word in _EVALUATION},
    **{f"on_{word}_batch_end": ("outputs", *OFFERED) for word in _EVALUATION},
}
"""Hooks that may take fewer arguments than there are."""

_ELSEWHERE = frozenset({"training_step", "forward", "optimizer_step", "backward"})
"""Checked with the plan of the loop, which knows their arguments."""

_PROPERTIES = frozenset(name for name in MODULE_HOOKS if not callable(getattr(LightningModule, name)))
"""Names that sound like hooks."""

_OF_MODULE, _OF_CALLBACK = sorted(MODULE_HOOKS - _ELSEWHERE - _PROPERTIES), sorted(CALLBACK_HOOKS)


def before_run(
    trainer: TrainerAPI, module: LightningModule, callbacks: Sequence[Callback], *, checks: bool = True
) -> tuple[LightningModule, Sequence[Callback]]:
    """Return module and callbacks with the hooks that a run calls: the user's, or what installed dialects have for
    those with methods or parameters of their names, or (where the module is attached: ``checks``) that do not fit.
    """
    called: Any = module, callbacks
    former = any(map(spoken_by, (module, *callbacks))) or any(
        use not in known and former_parameters(hook, offered)
        for hook, name, offered in _overridden(module, LightningModule, (*_OF_MODULE, "optimizer_step", "backward"))
        for known, use in [known_uses(hook, name)]
    )
    if former or (checks and next(_errors(trainer, module, callbacks), None) is not None):
        for dialect in dialects():
            called = dialect.before_run(trainer, *called)
    return called  # type: ignore[no-any-return]


def check_signatures(trainer: TrainerAPI, module: LightningModule, callbacks: Sequence[Callback], data: Any) -> None:
    """Look at every hook of module, callbacks and datamodule (or None).

    Raises:
        HookError: for one with parameters that nothing fills; shows its signature and the arguments that lt has.
    """
    for owner in (module, *callbacks):
        for name in HOOKS.keys() - spoken():
            if callable(getattr(owner, "__dict__", {}).get(name, getattr(type(owner), name, None))):
                raise HookError(
                    f"{type(owner).__name__}.{name} is a hook of Lightning 1.x, which nothing calls: write "
                    f"{HOOKS[name]}. {understood_by()}",
                    code="LT906",
                )
    for name in ("training_step", *(f"{word}_step" for word in _EVALUATION)):
        if "dataloader_iter" in getattr(getattr(getattr(module, name), "__code__", None), "co_varnames", ()):
            raise HookError(
                f"{type(module).__name__}.{name} takes dataloader_iter. lt reads the loaders itself, as resume and "
                f"uneven ranks need it, and hands over batches: write {name}(self, batch, batch_idx). A batch that "
                "holds several ones is a matter of the loader.",
                code="LT581",
            )
    of_data = _overridden(data, DataSource, sorted(DATA_HOOKS)) if data is not None else ()
    for error in (*_errors(trainer, module, callbacks), *(why_unfit(*hook) for hook in of_data)):
        if error is not None:
            raise error


def _errors(trainer: TrainerAPI, module: LightningModule, callbacks: Sequence[Callback]) -> Iterator[HookError]:
    """Yield the errors of hooks that lt cannot call: another dialect's, or mistakes."""
    hooks = [_overridden(callback, Callback, _OF_CALLBACK, trainer, module) for callback in callbacks]
    found = chain(_overridden(module, LightningModule, _OF_MODULE), *hooks)
    return (error for hook in found if (error := why_unfit(*hook)) is not None)


def _overridden(
    owner: object, base: type, names: Iterable[str], *first: Any
) -> Iterator[tuple[Hook, str, Sequence[str]]]:
    """Yield each hook that ``owner`` defines, with its name and lt's arguments beside ``first``."""
    kind, on_instance = type(owner), getattr(owner, "__dict__", {})
    for name in names:
        # most are not overridden: a look at the class is cheaper than a call for each
        other = name in on_instance or getattr(kind, name, None) is not getattr(base, name, None)
        if other and is_overridden(owner, name, base):
            own = getattr(owner, name)
            parameters = _documented(base, name)
            bound = first if "pl_module" in parameters else ()
            hook = BoundHook(own, *bound) if bound else own
            yield hook, name, CURRENT.get(name) or _BY_COUNT.get(name) or parameters[1 + len(bound) :]


@cache
def _documented(base: type, name: str) -> tuple[str, ...]:
    """Return the parameters of lt's own hook, ``self`` included: they are the same in every run."""
    return tuple(inspect.signature(getattr(base, name)).parameters)


def check_takes_index(module: LightningModule, method: str) -> None:
    """Raise for a step that is to read several loaders and does not take ``dataloader_idx``.

    Raises:
        HookError: which says how to write it.
    """
    if is_overridden(module, method, LightningModule) and 2 not in taken_places(getattr(module, method), OFFERED):
        raise HookError(
            f"There are several loaders, but {type(module).__name__}.{method} does not take dataloader_idx. Write "
            f"{method}(self, batch, batch_idx, dataloader_idx=0).",
            code="LT212",
        )


def why_unfit(function: Hook, name: str, offered: Sequence[str]) -> HookError | None:
    """Return the error of a hook; None for one that fits, or did in an earlier run."""
    own = inner(function)
    if not callable(own):
        return HookError(f"{name} is {shown(own)}; expected a method.", code="LT211")
    known, use = known_uses(function, name)
    if use in known:
        return None
    if former_parameters(function, offered) or (own is not function and not takes(own, (None, None), first=True)):
        return unfit(function, name, offered)
    try:
        if name in _BY_COUNT:
            taken_places(function, offered, len(offered) - 1)  # without dataloader_idx, which one loader alone has not
        elif name in CURRENT:
            adapted(function, name)
        elif not takes(function, offered):
            some = offered or own is not function
            remedy = "Take these parameters, in this order." if some else "Take no parameters."
            return unfit(function, name, offered, remedy)
    except HookError as error:
        return error
    known.setdefault(use, False)
    return None


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


def check_steps(stage: str, module: LightningModule, loaders: Loaders, limits: Limits, steps: Iterable[Step]) -> None:
    """Refuse missing steps and loaders, and limits that do not go with them, before the run.

    ``steps``: steps of other packages that arguments and the strategy ask for.
    """
    name = type(module).__name__
    if stage == "fit":
        for needed in ("training_step", "configure_optimizers"):
            if not is_overridden(module, needed, LightningModule):
                raise HookError(f"fit needs {name}.{needed}: define it in the module.", code="LT214")
        # the plan of the loop adapts these, and is made when the data is there and a validation has run
        known = {*spoken(), *plugins.names("steps")}
        if not any(f"parameter.{name}" in known for name in inspect.signature(module.training_step).parameters):
            taken_places(module.training_step, (*OFFERED[:2], *(name for step in steps for name in step.arguments)))
        for hook in ("optimizer_step", "backward") if module.automatic_optimization else ():
            if is_overridden(module, hook, LightningModule):
                adapted(getattr(module, hook), hook)
        check_manual(module, limits)
        has_step = is_overridden(module, "validation_step", LightningModule)
        has_loader = loaders.has("validate")
        if has_loader and not has_step:
            warn(
                f"There is a validation loader, but {name} has no validation_step: validation is skipped.",
                code="LT215",
            )
        # lt's own modules always have a step
        elif (
            has_step
            and not has_loader
            and limits.limit_val_batches
            and not type(module).validation_step.__module__.startswith("lt_")
        ):
            warn(
                f"{name} has a validation_step, but there is no validation loader: validation is skipped. Pass "
                "val_dataloaders=, or say that it is meant: Trainer(limit_val_batches=0).",
                code="LT215",
            )
    elif not is_overridden(module, needed := Stage(stage).step, LightningModule):
        calls_module = stage == "predict" and module.predict_step is not None
        if not calls_module or not any(is_overridden(module, own, nn.Module) for own in ("forward", "__call__")):
            either = f"{needed} or forward" if calls_module else needed
            raise HookError(f"{stage} needs {name}.{either}: define it in the module.", code="LT214")
    if stage != "fit" and stage not in loaders.given and not loaders.has(stage):
        raise HookError(
            f"{stage} has no data: pass dataloaders=, a datamodule, or define {Stage(stage).loader} in the module.",
            code="LT403",
        )
