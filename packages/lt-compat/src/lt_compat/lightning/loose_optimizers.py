"""Results of ``configure_optimizers`` that Lightning 2.6.6 takes, often with a warning, and lt refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lt_core.errors import did_you_mean, warn
from lt_core.interface import is_overridden
from lt_core.module import LightningModule

__all__ = ["taking_loose_optimizers"]

_KEYS = ("optimizer", "lr_scheduler", "monitor")
_SCHEDULER_KEYS = ("scheduler", "interval", "frequency", "monitor", "strict", "name", "reduce_on_plateau", "opt_idx")


@contextmanager
def taking_loose_optimizers(model: Any) -> Iterator[None]:
    """Have a fit of ``model`` ask for its optimizers without what Lightning passes over.

    For so long the object has a ``configure_optimizers`` of its own: which keys are there only its result tells.
    """
    module = getattr(model, "_orig_mod", model)
    if not isinstance(module, LightningModule) or not is_overridden(module, "configure_optimizers", LightningModule):
        yield
        return
    before = vars(module).get("configure_optimizers")
    mine = _Loose(module, module.configure_optimizers)
    vars(module)["configure_optimizers"] = mine
    try:
        yield
    finally:
        if vars(module).get("configure_optimizers") is mine:
            vars(module).pop("configure_optimizers")
            if before is not None:
                vars(module)["configure_optimizers"] = before


class _Loose:
    """A module's ``configure_optimizers``; a copy of the module, or its pickle, has a copy."""

    def __init__(self, module: LightningModule, own: Callable[[], Any]) -> None:
        self.module, self.own = module, own

    def __call__(self) -> Any:
        returned, automatic = self.own(), self.module.automatic_optimization
        if isinstance(returned, Mapping):
            return _entry(returned, automatic=automatic, turns=False)
        if not isinstance(returned, list | tuple) or not returned:
            return returned
        if all(isinstance(item, Mapping) and "optimizer" in item for item in returned):
            return [_entry(item, automatic=automatic, turns=len(returned) > 1) for item in returned]
        if automatic and len(returned) == 2 and isinstance(returned[0], list):
            return returned[0], _schedulers(returned[1])
        return returned


def _entry(given: Mapping[Any, Any], *, automatic: bool, turns: bool) -> Any:
    """Return the dict of an optimizer without unknown keys; another dict as it is."""
    if "optimizer" not in given:
        return given
    known = (*_KEYS, "frequency") if automatic and turns else _KEYS  # of 1.x: batches in a row for each optimizer
    _warn_of_unknown(given, known, "optimizer configuration", _belongs)
    kept = {key: value for key, value in given.items() if key in known}
    if not isinstance(kept.get("monitor"), str):
        kept.pop("monitor", None)
    if automatic and "lr_scheduler" in kept:
        kept["lr_scheduler"] = _schedulers(kept["lr_scheduler"])
    return kept


def _schedulers(given: Any) -> Any:
    """Return one or several schedulers without unknown keys, and with values of lt's types."""
    if isinstance(given, list | tuple):
        return [_schedulers(one) for one in given]
    if not isinstance(given, Mapping) or "scheduler" not in given:
        return given
    _warn_of_unknown(given, _SCHEDULER_KEYS, "lr scheduler dict", lambda key: did_you_mean(key, _SCHEDULER_KEYS))
    kept = {key: value for key, value in given.items() if key in _SCHEDULER_KEYS}
    if isinstance(frequency := kept.get("frequency"), float) and frequency.is_integer():
        kept["frequency"] = int(frequency)
    kept |= {key: kind(kept[key]) for key, kind in (("strict", bool), ("name", str)) if kept.get(key) is not None}
    if not isinstance(kept.get("monitor"), str):
        kept.pop("monitor", None)
    return kept


def _warn_of_unknown(
    given: Mapping[Any, Any], known: tuple[str, ...], where: str, advise: Callable[[str], str]
) -> None:
    """Warn in the words that filters of users know."""
    if unknown := {key for key in given if key not in known}:
        hints = "".join(dict.fromkeys(advise(str(key)) for key in given if key in unknown))
        warn(f"Found unsupported keys in the {where}: {unknown}. They are ignored.{hints}", code="LT952")


def _belongs(key: str) -> str:
    if key in _SCHEDULER_KEYS and key != "scheduler":
        return f" {key!r} belongs beside the scheduler: {{'lr_scheduler': {{'scheduler': scheduler, {key!r}: ...}}}}."
    return " Did you mean 'lr_scheduler'?" if "sched" in key else did_you_mean(key, _KEYS)
