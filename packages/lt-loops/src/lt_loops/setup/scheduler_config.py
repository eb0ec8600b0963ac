"""A learning-rate scheduler and when it steps, read from the result of ``configure_optimizers``."""

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR, ReduceLROnPlateau

from lt_core.duration import Duration
from lt_core.errors import ConfigError, HookError, LtDeprecationWarning, did_you_mean, warn
from lt_loops.arguments.problems import shown, type_name
from lt_loops.setup.hooks import defines, parameters_of

__all__ = ["SchedulerConfig", "check_schedule_length", "kinds_of", "load_schedulers", "read_scheduler", "states_of"]

_CODE = "LT332"


@dataclass(kw_only=True, slots=True)
class SchedulerConfig:
    """One scheduler and when it steps.

    Attributes:
        scheduler: torch's scheduler, or anything with its ``step``, ``state_dict`` and ``load_state_dict``.
        optimizer: the optimizer that it drives; None where the scheduler does not say so and there are several.
        interval: its unit: training epochs or optimizer steps.
        frequency: it steps at every so many of them.
        every: in place of both, an interval in samples, tokens, batches or parts of the run.
        stepped: how often it has stepped by that; None before it is counted.
        reduce_on_plateau: it steps with the value of ``monitor``.
        monitor: the logged metric that it watches.
        strict: a monitor that was not logged is an error; False: a warning, and no step.
        name: how a learning-rate monitor calls it.
    """

    scheduler: Any
    optimizer: Optimizer | None = None
    interval: Literal["epoch", "step"] = "epoch"
    frequency: int = 1
    every: Duration | None = None
    stepped: int | None = None
    reduce_on_plateau: bool = False
    monitor: str | None = None
    strict: bool = True
    name: str | None = None


def read_scheduler(item: Any, monitor: str | None, optimizers: Sequence[Optimizer], module: Any) -> SchedulerConfig:
    """Return the config of one scheduler.

    Args:
        item: the scheduler, or a dict with the key ``scheduler`` and settings.
        monitor: the ``monitor`` that stood beside ``lr_scheduler``; a config's own one comes first.
        optimizers: all that ``configure_optimizers`` returned.
        module: the user's module.

    Raises:
        HookError: for unknown settings, wrong values, no monitor for ``ReduceLROnPlateau``, or a scheduler of an
            optimizer that was not returned.
    """
    settings = _by_duration(_settings(item)) if isinstance(item, Mapping) else {"scheduler": item}
    scheduler = settings["scheduler"]
    manual = not getattr(module, "automatic_optimization", True)
    _check_scheduler(scheduler, module, manual)
    unused = [key for key in settings if key not in ("scheduler", "name")]
    if manual and unused:
        warn(
            f"A scheduler's config has {', '.join(map(repr, unused))}, which does nothing in manual optimization: no "
            f"scheduler steps by itself. Call self.lr_schedulers().step() in {type(module).__name__}, and leave out "
            "the rest.",
            code="LT334",
        )
    config = SchedulerConfig(
        **{"reduce_on_plateau": isinstance(scheduler, ReduceLROnPlateau), "monitor": monitor, **settings},
        optimizer=_driven(scheduler, optimizers),
    )
    if config.reduce_on_plateau and config.monitor is None and not manual:
        raise HookError(
            f"The scheduler {_kind(scheduler)} steps by a metric, but no 'monitor' says which. Expected, for instance, "
            "{'optimizer': optimizer, 'lr_scheduler': {'scheduler': scheduler, 'monitor': 'val_loss'}}.",
            code=_CODE,
        )
    return config


def check_schedule_length(config: SchedulerConfig, steps: float, epochs: float) -> None:
    """Warn when a schedule and the run differ in length as they do when somebody counted in the wrong unit.

    ``steps`` and ``epochs`` of the whole fit are infinite where unknown.
    """
    scheduler = config.scheduler
    total = getattr(scheduler, "total_steps", None) or getattr(scheduler, "T_max", None)
    if config.every is not None:
        return
    calls = (steps if config.interval == "step" else epochs) / config.frequency
    if not isinstance(total, int | float) or calls == float("inf"):
        return
    length = f"The schedule of {_kind(scheduler)} is {total:g} steps long"
    if config.interval == "epoch" and 2 * calls <= total and steps / 2 <= total <= steps * 2:
        warn(
            f"{length}, as the run is ({steps:g} optimizer steps), but with interval='epoch' it steps {calls:g} times. "
            "Write 'lr_scheduler': {'scheduler': scheduler, 'interval': 'step'}.",
            code="LT334",
        )
    elif isinstance(scheduler, OneCycleLR) and calls > total:
        warn(
            f"{length}, and it raises an error when it steps once more; with interval={config.interval!r} this run "
            f"asks for {calls:g}. Write total_steps=self.trainer.estimated_stepping_batches.",
            code="LT334",
        )


def kinds_of(configs: Sequence[SchedulerConfig]) -> list[str]:
    """Return the name of each scheduler's class."""
    return [_kind(config.scheduler) for config in configs]


def states_of(configs: Sequence[SchedulerConfig], states: Sequence[Any], kinds: Sequence[str] | None) -> list[Any]:
    """Return a file's state of each scheduler; None where it has none, or one of another class with other entries."""
    given, was, found = dict(enumerate(states)), dict(enumerate(kinds or ())), []
    for index, config in enumerate(configs):
        now, state = _kind(config.scheduler), given.get(index)
        fits = was.get(index, now) == now or set(state or ()) == set(config.scheduler.state_dict())
        found.append(state if fits else None)
    return found


def load_schedulers(
    configs: Sequence[SchedulerConfig], states: Sequence[Any], kinds: Sequence[str] | None, path: str, *, gaps: bool
) -> None:
    """Give schedulers their states, and warn where they were made otherwise than those that the file is of.

    Args:
        configs: the schedulers of this run.
        states: those in the file.
        kinds: their classes; None where the file does not say.
        path: the file.
        gaps: whether the states lack what could not be saved, which stays as it was made.
    """
    made = [_made_with(config.scheduler) for config in configs]
    for config, state in zip(configs, states_of(configs, states, kinds), strict=True):
        if state is not None:
            config.scheduler.load_state_dict({**config.scheduler.state_dict(), **state} if gaps else state)
    was, now, changes = kinds, kinds_of(configs), list[str]()
    if len(states) != len(now) or (was is not None and was != now):
        known = len(states) if was is None else ", ".join(was)
        changes.append(f"{known or 'none'} then, {', '.join(now) or 'none'} now")
    for kind, before, config in zip(now, made, configs, strict=True):
        after = _made_with(config.scheduler)
        changes += [
            f"{name} of {kind} is {after[name]!r} as in the file, and not {value!r}"
            for name, value in before.items()
            if after.get(name, value) != value
        ]
    if changes:
        warn(
            f"{path} resumes with other schedulers: {'; '.join(changes)}. The file's values count; a scheduler that "
            "it has not begins anew, at the rate that configure_optimizers gave. For other values change "
            "checkpoint['lr_schedulers'] in on_load_checkpoint(self, checkpoint).",
            code="LT695",
        )


def _made_with(scheduler: Any) -> dict[str, Any]:
    """Return the numbers and words that a scheduler, and those inside it, were made with, as far as they keep them."""
    state, plain = getattr(scheduler, "__dict__", {}), (int, float, str, Counter)
    names = [name for name in inspect.signature(type(scheduler)).parameters if name != "last_epoch"]
    kept = {name: state[name] for name in names if isinstance(state.get(name), plain)}
    for number, part in enumerate(state.get("_schedulers") or ()):
        kept |= {f"{name} of {_kind(part)} {number}": value for name, value in _made_with(part).items()}
    return kept


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    settings = dict(given)
    if settings.pop("opt_idx", None) is not None:
        warn(
            "'opt_idx' in a scheduler's config is not needed any more: leave it out.",
            code="LT902",
            category=LtDeprecationWarning,
        )
    known = ("scheduler", *_SETTINGS)
    unknown = next((key for key in settings if key not in known), None)
    if unknown is not None:
        raise HookError(
            f"A scheduler's config has the unknown key {unknown!r}.{did_you_mean(str(unknown), known)} Expected: "
            f"{', '.join(known)}.",
            code=_CODE,
        )
    if settings.get("scheduler") is None:
        raise HookError(
            f"A scheduler's config has no 'scheduler', only {', '.join(map(repr, settings)) or 'nothing'}. Expected: "
            "{'scheduler': scheduler, 'interval': 'step'}.",
            code=_CODE,
        )
    for key, (fits, expected) in _SETTINGS.items():
        if key in settings and not fits(value := settings[key]):
            raise HookError(
                f"A scheduler's config has {key!r}: {shown(value)}, {type_name(value)}; expected {expected}."
                f"{did_you_mean(str(value), ('epoch', 'step')) if key == 'interval' else ''}",
                code=_CODE,
            )
    return {key: value for key, value in settings.items() if value is not None}


def _by_duration(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with an interval that is a duration translated: steps and epochs into a frequency."""
    interval = settings.get("interval", "epoch")
    if interval in ("epoch", "step"):
        return settings
    every = Duration.of_any(interval)
    plateau = settings.get("reduce_on_plateau", isinstance(settings["scheduler"], ReduceLROnPlateau))
    counted = every.unit in ("steps", "epochs") and every.amount == int(every.amount)
    if "frequency" in settings or every.unit == "seconds" or (plateau and not counted):
        raise HookError(
            f"A scheduler's config has 'interval': {interval!r}: expected one in steps, epochs, samples, tokens or "
            "parts of the run, without a 'frequency'; one that watches a metric goes by steps or epochs.",
            code=_CODE,
        )
    if not every.amount:
        return {**settings, "interval": "step"}
    if counted:
        return {**settings, "interval": every.unit.removesuffix("s"), "frequency": int(every.amount)}
    return {**settings, "interval": "step", "every": every}


def _is_interval(value: Any) -> bool:
    with suppress(ConfigError):
        return value in ("epoch", "step") or bool(Duration.of_any(value))
    return False


_FLAG = (lambda value: isinstance(value, bool | None), "True or False")
_SETTINGS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "interval": (
        _is_interval,
        "'epoch' or 'step', or a duration such as '1000 tokens'. To step at every third epoch write 'frequency': 3",
    ),
    "frequency": (
        lambda value: type(value) is int and value >= 1,
        "a whole number, 1 or more; 1 steps every time. To never step leave the scheduler out",
    ),
    "monitor": (lambda value: isinstance(value, str | None), "the name of a logged metric, such as 'val_loss'"),
    "strict": _FLAG,
    "name": (lambda value: isinstance(value, str | None), "text, such as 'lr-warmup'"),
    "reduce_on_plateau": _FLAG,
}
"""Keys of a config beside its scheduler."""


def _check_scheduler(scheduler: Any, module: Any, manual: bool) -> None:
    """Refuse other objects than schedulers, and one that only a hook of the user's own can step."""
    if isinstance(scheduler, LRScheduler):
        return
    if isinstance(scheduler, type) or not all(callable(getattr(scheduler, name, None)) for name in _API):
        kind = scheduler.__name__ if isinstance(scheduler, type) else "StepLR"
        raise HookError(
            f"configure_optimizers returned {shown(scheduler)} as a scheduler; expected an object with "
            f"{', '.join(_API)}; received {type_name(scheduler)}. Make one: {kind}(optimizer, ...).",
            code=_CODE,
        )
    parameters = () if manual or defines(module, "lr_scheduler_step") else parameters_of(scheduler.step)
    if any(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters or ()):
        raise HookError(
            f"{_kind(scheduler)}.step{inspect.signature(scheduler.step)} does not step as torch's schedulers do, "
            "without arguments. Define lr_scheduler_step(self, scheduler, metric) in the module and step it there.",
            code=_CODE,
        )


_API = ("step", "state_dict", "load_state_dict")


def _driven(scheduler: Any, optimizers: Sequence[Optimizer]) -> Optimizer | None:
    """Return the optimizer that ``scheduler`` drives, found by identity."""
    optimizer = getattr(scheduler, "optimizer", None)
    if not isinstance(optimizer, Optimizer):
        return optimizers[0] if len(optimizers) == 1 else None
    if not any(returned is optimizer for returned in optimizers):
        raise HookError(
            f"The scheduler {_kind(scheduler)} drives a {type(optimizer).__name__} that configure_optimizers did not "
            "return. Make the scheduler of a returned optimizer, or return its optimizer too.",
            code=_CODE,
        )
    return optimizer


def _kind(scheduler: Any) -> str:
    return type(scheduler).__name__
