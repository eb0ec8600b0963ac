"""The result of ``configure_optimizers`` in one form, for all of its many forms."""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.optim import LBFGS, Optimizer

from lt_core.errors import HookError, did_you_mean, warn
from lt_loops.arguments.problems import shown, type_name
from lt_loops.setup.scheduler_config import SchedulerConfig, read_scheduler
from lt_loops.state.plan import params_of

_KEYS = ("optimizer", "lr_scheduler", "monitor", "frequency")
_SCHEDULER_KEYS = ("scheduler", "interval", "strict", "name", "reduce_on_plateau")
_API = ("param_groups", "step", "zero_grad", "state_dict", "load_state_dict")
_FORMS = (
    "an optimizer, a list of optimizers, two lists (optimizers, schedulers), {'optimizer': ..., 'lr_scheduler': ...}, "
    "a list of such dicts, a dict of named optimizers, or None"
)


@dataclass(slots=True, eq=False)
class Optimization:
    """The optimizers and schedulers of ``configure_optimizers``.

    Attributes:
        optimizers: in declared order.
        names: one for each optimizer where they were named, else None.
        schedulers: with when they step, in declared order.
        frequencies: batches in a row for each optimizer (the form of 1.x), else None.
        foreign: ids of parameters that are not the module's, which is a choice where they were so from the start.
        left_out: names of trainable parameters of the module that no optimizer has, likewise.
    """

    optimizers: list[Optimizer] = field(default_factory=list)
    names: list[str] | None = None
    schedulers: list[SchedulerConfig] = field(default_factory=list)
    frequencies: list[int] | None = None
    foreign: frozenset[int] = frozenset()
    left_out: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class _Entry:
    """One optimizer with its settings; ``schedulers`` as the user wrote them."""

    optimizer: Optimizer
    schedulers: list[Any] = field(default_factory=list)
    monitor: str | None = None
    frequency: int | None = None


def parse_optimizers(returned: Any, module: nn.Module) -> Optimization:
    """Read the result of ``module.configure_optimizers()``.

    A dict with a key of Lightning's (``optimizer, lr_scheduler, monitor, frequency``) is one optimizer; any other dict
    names optimizers.

    Raises:
        HookError: for any other value; the message has the expected forms and the remedy.
    """
    if returned is None:
        if getattr(module, "automatic_optimization", True):
            warn(
                "configure_optimizers returned None, so nothing is optimized: training_step runs, and no parameter "
                "changes. Return an optimizer if that is not meant.",
                code="LT331",
            )
        return Optimization()
    names: list[str] | None = None
    loose: list[Any] = []
    if isinstance(returned, Mapping) and not set(returned) & {*_KEYS, *_SCHEDULER_KEYS}:
        names, entries = list(returned), _named(returned)
    elif isinstance(returned, list | tuple):
        entries, loose = _listed(returned)
    else:
        entries = [_entry(returned)]
    optimizers = [entry.optimizer for entry in entries]
    if len({*map(id, optimizers)}) < len(optimizers):
        raise HookError(
            "configure_optimizers returned the same optimizer twice "
            f"({', '.join(type(optimizer).__name__ for optimizer in optimizers)}): expected each once. Leave one out, "
            "or make a second optimizer.",
            code="LT335",
        )
    for name, optimizer in zip(names or range(len(optimizers)), optimizers, strict=True):
        _check_parameters(f"The optimizer {name} ({type(optimizer).__name__})", optimizer, module)
    wanted = [(scheduler, entry.monitor) for entry in entries for scheduler in entry.schedulers]
    wanted += [(scheduler, None) for scheduler in loose]
    schedulers = [read_scheduler(scheduler, monitor, optimizers, module) for scheduler, monitor in wanted]
    foreign = frozenset(map(id, foreign_parameters(optimizers, module)))
    frequencies = [entry.frequency for entry in entries if entry.frequency is not None]
    if len(entries) == 1 and frequencies > [1]:
        raise HookError(
            f"One optimizer has 'frequency': {frequencies[0]}: expected several, which take turns. For its scheduler "
            f"write {{'lr_scheduler': {{'scheduler': scheduler, 'frequency': {frequencies[0]}}}}}, and to step at "
            "every so many batches Trainer(accumulate_grad_batches=...).",
            code="LT330",
        )
    if 0 < len(frequencies) < len(entries):
        raise HookError(
            f"{len(frequencies)} of {len(entries)} optimizers have a 'frequency': expected one for each, or none. "
            "Write 'frequency': 1 for the others.",
            code="LT330",
        )
    turns = frequencies if len(frequencies) > 1 else None
    return Optimization(optimizers, names, schedulers, turns, foreign, left_out_of(optimizers, module))


# ---- the forms -------------------------------------------------------------------------------------------------------


def _named(returned: Mapping[Any, Any]) -> list[_Entry]:
    entries = []
    for name, value in returned.items():
        if not isinstance(name, str):
            raise _wrong_return(returned, f"The name {name!r} is {type_name(name)}: names are text.")
        entries.append(entry := _entry(value, where=f" under the name {name!r}"))
        if entry.frequency is not None:
            raise HookError(
                f"The optimizer {name!r} has a 'frequency', which named optimizers do not take. A training_step that "
                "returns a dict of losses chooses at each batch which of them step.",
                code="LT330",
            )
    return entries or _nothing(returned)


def _nothing(returned: Any) -> list[_Entry]:
    raise _wrong_return(returned, "To optimize nothing return None.")


def _listed(returned: list[Any] | tuple[Any, ...]) -> tuple[list[_Entry], list[Any]]:
    """Return the optimizers of a list or of two lists, and the schedulers of the second."""
    optimizers, schedulers = returned, None
    if len(returned) == 2 and isinstance(returned[0], list | tuple):
        optimizers, schedulers = returned
    elif len(returned) == 2 and _is_optimizer(returned[0]) and _is_scheduler(returned[1]):
        raise _wrong_return(returned, "The second one is a scheduler: return [optimizer], [scheduler].")
    return [_entry(item, " in its list") for item in optimizers] or _nothing(returned), _list_of(schedulers)


def _entry(item: Any, where: str = "") -> _Entry:
    """Return one optimizer, given as it is or as a dict with the key ``optimizer``."""
    if not isinstance(item, Mapping):
        return _Entry(_checked(item, where))
    for key in item:
        if key not in _KEYS:
            raise HookError(f"An optimizer's dict has the unknown key {key!r}. {_belongs(str(key))}", code="LT330")
    if "optimizer" not in item:
        raise _wrong_return(item, "The dict has no key 'optimizer'.")
    monitor, frequency = item.get("monitor"), item.get("frequency")
    if not isinstance(monitor, str | None):
        raise _wrong_return(item, f"'monitor' is {type_name(monitor)}: expected a logged metric, such as 'val_loss'.")
    if frequency is not None and (type(frequency) is not int or frequency < 1):
        raise _wrong_return(item, f"'frequency' is {frequency!r}: expected a whole number of batches, 1 or more.")
    optimizer = _checked(item["optimizer"], where or " as 'optimizer'")
    return _Entry(optimizer, _list_of(item.get("lr_scheduler")), monitor, frequency)


def _belongs(key: str) -> str:
    if key in _SCHEDULER_KEYS and key != "scheduler":
        return f"It belongs in the scheduler's config: {{'lr_scheduler': {{'scheduler': scheduler, {key!r}: ...}}}}."
    hint = " Did you mean 'lr_scheduler'?" if "sched" in key else did_you_mean(key, _KEYS)
    return f"Expected: {', '.join(_KEYS)}.{hint}"


def _list_of(schedulers: Any) -> list[Any]:
    if schedulers is None:
        return []
    return list(schedulers) if isinstance(schedulers, list | tuple) else [schedulers]


# ---- one optimizer ---------------------------------------------------------------------------------------------------


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, Optimizer) or (not isinstance(value, type) and all(hasattr(value, name) for name in _API))


def _is_scheduler(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "scheduler" in value
    return hasattr(value, "step") and not hasattr(value, "param_groups")


def _checked(value: Any, where: str) -> Optimizer:
    if _is_optimizer(value):
        return value  # type: ignore[no-any-return]
    remedy = "Return torch.optim.Adam(self.parameters(), lr=1e-3), for instance."
    if isinstance(value, type):
        remedy = f"Make an object of it: {value.__name__}(self.parameters(), lr=1e-3)."
    elif isinstance(value, partial):
        remedy = "Call the partial with the parameters: return it(self.parameters())."
    elif isinstance(value, Iterator | Tensor):
        remedy = "Parameters alone do not say how to optimize: return torch.optim.Adam(self.parameters(), lr=1e-3)."
    elif _is_scheduler(value):
        remedy = "This is a scheduler: return [optimizer], [scheduler]."
    elif isinstance(value, list | tuple):
        remedy = "Return one flat list of optimizers."
    raise _wrong_return(value, remedy, where)


def _wrong_return(value: Any, remedy: str, where: str = "") -> HookError:
    kind = "" if value is None else f", {type_name(value)}"
    return HookError(
        f"configure_optimizers returned {shown(value)}{where}{kind}; expected {_FORMS}. {remedy}", code="LT330"
    )


def _check_parameters(which: str, optimizer: Optimizer, module: nn.Module) -> None:
    """Refuse an optimizer over nothing, or over parameters that are not the module's."""
    count, foreign = (
        sum(len(group["params"]) for group in optimizer.param_groups),
        foreign_parameters([optimizer], module),
    )
    if not count:
        raise HookError(
            f"{which} has no parameters: expected at least one. Make it of self.parameters() when the layers are "
            "there: in __init__ or configure_model.",
            code="LT335",
        )
    if not foreign:
        return
    text = (
        f"{which} trains {len(foreign)} of {count} parameters that are not {type(module).__name__}'s (the first has "
        f"shape {tuple(foreign[0].shape)}): they are neither moved to the device nor saved. Make it of "
        "self.parameters(), after the layers have their final form; layers in a plain list need nn.ModuleList."
    )
    if len(foreign) == count:
        raise HookError(text, code="LT333")
    warn(text, code="LT333")


def foreign_parameters(optimizers: list[Optimizer], module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of ``optimizers`` that are not the module's.

    A plain tensor with requires_grad, held by the user, is a choice; a Parameter belongs to some module.
    """
    mine = {id(parameter) for parameter in module.parameters()}
    return [p for p in params_of(*optimizers) if isinstance(p, nn.Parameter) and id(p) not in mine]


def left_out_of(optimizers: list[Optimizer], module: nn.Module) -> frozenset[str]:
    """Return the names of the module's trainable parameters that no optimizer has."""
    held = set(map(id, params_of(*optimizers)))
    return frozenset(name for name, p in module.named_parameters() if p.requires_grad and id(p) not in held)


def takes_closure(optimizer: Optimizer, *, offered: bool) -> bool:
    """Return whether an optimizer's step is handed the closure: LBFGS's, one that requires it or says that it does.

    An optional closure is called once at most by nearly all optimizers, so for them forward and backward go before the
    step. SAM's kind says otherwise: ``needs_closure = True`` on the optimizer or the module.

    Args:
        optimizer: made by the user.
        offered: hand it to every step that can take one, unless it is torch's.
    """
    if isinstance(optimizer, LBFGS) or getattr(optimizer, "needs_closure", False):
        return True
    step = inspect.unwrap(getattr(type(optimizer), "step", Optimizer.step))
    if step.__module__.partition(".")[0] == "torch":
        return False
    parameters = inspect.signature(step).parameters
    closure = parameters.get("closure")
    if closure is None:  # a wrapper may hand all on to the optimizer inside
        return offered and any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return offered or closure.default is closure.empty


def check_names(optimizers: list[Optimizer], names: list[str] | None) -> None:
    """Refuse several optimizers of automatic optimization whose losses cannot be told apart.

    Raises:
        HookError: which says how to name them.
    """
    held = params_of(*optimizers)
    alike = "over the same parameters" if len({*map(id, held)}) < len(held) else ""
    if len(optimizers) > 1 and (what := "without names" if names is None else alike):
        raise HookError(
            f"configure_optimizers returned {len(optimizers)} optimizers {what}, and automatic optimization cannot "
            "know which loss is whose. Return a dict of named ones ({'gen': ..., 'disc': ...}), each over parameters "
            "of its own, or set self.automatic_optimization = False and step them in training_step.",
            code="LT301",
        )
