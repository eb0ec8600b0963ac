"""Arguments of the Trainer that are fine by themselves and cannot both be had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    return [
        *_limits(given),
        *_durations(given),
        *two_batches(given),
        *_barebones(given),
        *_overfitting(given),
        *_validation(given),
        *_roles(given),
        *_plugins(given),
    ]


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
            yield Problem(
                f"{least}={low} and {most}={high}: expected {least} not above {most}. Raise {most} to {low}, or lower "
                f"{least}."
            )


def _durations(given: Mapping[str, Any]) -> Iterator[Problem]:
    for name, others in (
        ("max_duration", ("max_epochs", "max_steps", "max_time")),
        ("max_time", ("max_epochs", "max_steps")),
    ):
        whole = given.get(name)
        if whole is None or (name == "max_time" and Duration.of_any(whole).unit == "seconds"):
            continue
        for other in others:
            if given.get(other) not in (None, -1):
                yield Problem(
                    f"{name}={shown(whole)} and {other}={shown(given[other])}: expected one of both. Leave out either."
                )


def _barebones(given: Mapping[str, Any]) -> Iterator[Problem]:
    if not given.get("barebones"):
        return
    for name, agreeing in BAREBONES.items():
        value = given.get(name)
        if value is not None and value not in agreeing:
            yield Problem(
                f"barebones=True and {name}={shown(value)}: barebones turns {name} off. Take barebones=False, or leave "
                f"{name} out."
            )


def _overfitting(given: Mapping[str, Any]) -> Iterator[Problem]:
    overfit = given.get("overfit_batches")
    if not overfit:
        return
    for name in ("limit_train_batches", "limit_val_batches"):
        limit = given.get(name)
        harmless = (None, 1.0, 0) if name == "limit_val_batches" else (None, 1.0)
        if limit not in harmless or (is_whole(limit) and limit == 1):
            yield Problem(
                f"overfit_batches={overfit} and {name}={limit}: overfit_batches sets {name}. Leave {name} out, or "
                "take overfit_batches=0.0."
            )


def _validation(given: Mapping[str, Any]) -> Iterator[Problem]:
    if "check_val_every_n_epoch" not in given or given["check_val_every_n_epoch"] is not None:
        return
    interval = given.get("val_check_interval")
    if interval is None or isinstance(interval, float):
        yield Problem(
            f"check_val_every_n_epoch=None and val_check_interval={interval}: without epochs expected an interval in "
            "batches or in time, not a fraction of an epoch. Write val_check_interval=1000, for instance, or "
            "check_val_every_n_epoch=1."
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
    for kind in KINDS:
        found = [type(plugin).__name__ for plugin in plugins if isinstance(plugin, kind)]
        if len(found) > 1:
            yield Problem(f"plugins holds {' and '.join(found)}: expected at most one {kind.__name__}. Take one out.")
        number_format = given.get("precision")
        formats = number_format if isinstance(number_format, Mapping) else {"train": number_format}
        if found and kind is Precision and formats.get("train") is not None:
            yield Problem(
                f"precision={shown(given['precision'])} and plugins=[{found[0]}(...)]: two number formats. Leave "
                "precision out, or take the plug-in out."
            )
