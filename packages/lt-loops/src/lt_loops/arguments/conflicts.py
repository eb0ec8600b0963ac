"""Arguments of the Trainer that are fine by themselves and cannot both be had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from lt_core.checkpoint import CheckpointIO
from lt_core.duration import Duration
from lt_core.environment import Environment
from lt_core.errors import ConfigError
from lt_core.launcher import Launcher
from lt_core.plugins import ROLES
from lt_core.precision import Precision
from lt_loops.arguments.problems import Problem, problem_of, shown
from lt_loops.arguments.rules import as_list, is_whole

BAREBONES: dict[str, tuple[Any, ...]] = {
    "logger": (False,),
    "enable_checkpointing": (False,),
    "enable_progress_bar": (False,),
    "enable_model_summary": (False,),
    "log_every_n_steps": (0,),
    "num_sanity_val_steps": (0,),
    "fast_dev_run": (False, 0),
    "detect_anomaly": (False,),
    "profiler": (None,),
}
"""What barebones turns off: the value that it sets, and others that agree with it (None always does)."""


KINDS = (Precision, Environment, CheckpointIO, Launcher)
"""What ``Trainer(plugins=...)`` takes, one of each."""


def find_conflicts(given: Mapping[str, Any]) -> list[Problem]:
    """Return the conflicts among arguments that have passed their own rules; each names both values and the way out.

    A callback or plug-in counts as an object, or by its class, not by its name.
    """
    found = (_limits, _lengths, _former, two_batches, _barebones, _overfitting, _validation, _roles, _plugins)
    return [*chain.from_iterable(conflicts(given) for conflicts in found)]


def _both(given: Mapping[str, Any], first: str, second: str, text: str) -> Problem:
    values = (f"{name}={shown(given.get(name))}" for name in (first, second))
    return Problem(f"{' and '.join(values)}: {text}")


def two_batches(given: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem where both arguments say how many batches make a step."""
    total, batches = given.get("global_batch_size"), given.get("accumulate_grad_batches")
    if total is not None and batches is not None:
        error = ConfigError(
            f"global_batch_size={shown(total)} and accumulate_grad_batches={shown(batches)}: each says how many "
            "batches make a step. Leave one of them out.",
            code="LT763",
        )
        yield problem_of(error)


def _limits(given: Mapping[str, Any]) -> Iterator[Problem]:
    for least, most in (("min_epochs", "max_epochs"), ("min_steps", "max_steps")):
        low, high = given.get(least), given.get(most)
        if low is not None and high is not None and 0 <= high < low:
            way_out = f"Raise {most} to {low}, or lower {least}."
            yield _both(given, least, most, f"expected {least} not above {most}. {way_out}")


def _lengths(given: Mapping[str, Any]) -> Iterator[Problem]:
    for name in ("max_time", "max_duration"):
        whole = given.get(name)
        if whole is None or (name == "max_time" and Duration.of_any(whole).unit == "seconds"):
            continue
        for other in ("max_epochs", "max_steps", "max_time"):
            if other != name and given.get(other) not in (None, -1):
                yield _both(given, name, other, "expected one of both. Leave out either.")


def _former(given: Mapping[str, Any]) -> Iterator[Problem]:
    precision, graphs = given.get("precision"), given.get("cuda_graphs", False)
    says = {
        "precision": isinstance(precision, Mapping) and "eval" in precision,
        "cuda_graphs": type(graphs) is not bool,
    }
    for name, former in (("precision", "eval_precision"), ("cuda_graphs", "steps_per_execution")):
        if says[name] and given.get(name) is not None and given.get(former) is not None:
            yield _both(given, name, former, f"the first says both. Leave {former} out.")


def _barebones(given: Mapping[str, Any]) -> Iterator[Problem]:
    for name, agreeing in BAREBONES.items() if given.get("barebones") else ():
        if given.get(name) not in (None, *agreeing):
            way_out = f"Take barebones=False, or leave {name} out."
            yield _both(given, "barebones", name, f"barebones turns {name} off. {way_out}")


def _overfitting(given: Mapping[str, Any]) -> Iterator[Problem]:
    for name, harmless in (("limit_train_batches", (None, 1.0)), ("limit_val_batches", (None, 1.0, 0))):
        limit = given.get(name)
        if given.get("overfit_batches") and (limit not in harmless or (is_whole(limit) and limit == 1)):
            way_out = f"Leave {name} out, or take overfit_batches=0.0."
            yield _both(given, "overfit_batches", name, f"overfit_batches sets {name}. {way_out}")


def _validation(given: Mapping[str, Any]) -> Iterator[Problem]:
    interval = given.get("val_check_interval")
    if given.get("check_val_every_n_epoch", 1) is None and (interval is None or isinstance(interval, float)):
        yield _both(
            given,
            "check_val_every_n_epoch",
            "val_check_interval",
            "without epochs expected an interval in batches or in time, not a fraction of an epoch. Write "
            "val_check_interval=1000, for instance, or check_val_every_n_epoch=1.",
        )


def _roles(given: Mapping[str, Any]) -> Iterator[Problem]:
    callbacks = as_list(given.get("callbacks") or ())
    bars = [type(callback).__name__ for callback in callbacks if getattr(callback, "role", "") == "progress_bar"]
    if len(bars) > 1:
        yield Problem(f"callbacks holds {' and '.join(bars)}: expected at most one progress bar. Take one out.")
    for callback in callbacks:
        flag = ROLES.get(getattr(callback, "role", ""))
        if flag is not None and given.get(flag) is False:
            kind = callback if isinstance(callback, type) else type(callback)
            error = ConfigError(
                f"{flag}=False and callbacks=[{kind.__name__}(...)]: the flag turns off what the callback does. Take "
                f"the callback out, or leave {flag} out.",
                code="LT123",
            )
            yield problem_of(error)


def _plugins(given: Mapping[str, Any]) -> Iterator[Problem]:
    plugins = as_list(given.get("plugins") or ())
    precision = given.get("precision")
    for kind in KINDS:
        found = [type(plugin).__name__ for plugin in plugins if isinstance(plugin, kind)]
        if len(found) > 1:
            yield Problem(f"plugins holds {' and '.join(found)}: expected at most one {kind.__name__}. Take one out.")
        training = precision.get("train") if isinstance(precision, Mapping) else precision
        if found and kind is Precision and training is not None:
            yield Problem(
                f"precision={shown(precision)} and plugins=[{found[0]}(...)]: two number formats. Leave "
                "precision out, or take the plug-in out."
            )
