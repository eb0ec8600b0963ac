"""Arguments of the Trainer that are fine by themselves and cannot both be had."""

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
"""Arguments turned off by barebones: the value that it sets, and others that agree with it (None always does)."""


KINDS = (Precision, Environment, CheckpointIO, Launcher)
"""Kinds of ``Trainer(plugins=...)``, one of each."""


def find_conflicts(given: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the conflicts among arguments that have passed their own rules; each names both values and the way out.

    A callback or plug-in counts as an object, or by its class, not by its name.
    """
    get = given.get

    def both(first: str, second: str, text: str) -> Problem:
        return Problem(f"{first}={shown(get(first))} and {second}={shown(get(second))}: {text}")

    for least, most in (("min_epochs", "max_epochs"), ("min_steps", "max_steps")):
        low, high = get(least), get(most)
        if low is not None and high is not None and 0 <= high < low:
            yield both(least, most, f"expected {least} not above {most}. Raise {most} to {low}, or lower {least}.")
    for name in ("max_time", "max_duration"):
        whole = get(name)
        if whole is None or (name == "max_time" and Duration.of_any(whole).unit == "seconds"):
            continue
        for other in ("max_epochs", "max_steps", "max_time"):
            if other != name and get(other) not in (None, -1):
                yield both(name, other, "expected one of both. Leave out either.")
    precision, graphs = get("precision"), get("cuda_graphs")
    parts = precision if isinstance(precision, Mapping) else {"train": precision}
    for name, says_both, former in (
        ("precision", "eval" in parts, "eval_precision"),
        ("cuda_graphs", graphs is not None and type(graphs) is not bool, "steps_per_execution"),
    ):
        if says_both and get(former) is not None:
            yield both(name, former, f"the first says both. Leave {former} out.")
    yield from two_batches(given)
    for name, agreeing in BAREBONES.items() if get("barebones") else ():
        if get(name) not in (None, *agreeing):
            yield both("barebones", name, f"barebones turns {name} off. Take barebones=False, or leave {name} out.")
    for name, harmless in (("limit_train_batches", (None, 1.0)), ("limit_val_batches", (None, 1.0, 0))):
        limit = get(name)
        if get("overfit_batches") and (limit not in harmless or (is_whole(limit) and limit == 1)):
            text = f"overfit_batches sets {name}. Leave {name} out, or take overfit_batches=0.0."
            yield both("overfit_batches", name, text)
    if get("check_val_every_n_epoch", 1) is None and isinstance(get("val_check_interval"), float | None):
        yield both(
            "check_val_every_n_epoch",
            "val_check_interval",
            "without epochs expected an interval in batches or in time, not a fraction of an epoch. Write "
            "val_check_interval=1000, for instance, or check_val_every_n_epoch=1.",
        )
    callbacks, plugins = as_list(get("callbacks") or ()), as_list(get("plugins") or ())
    bars = [callback for callback in callbacks if getattr(callback, "role", "") == "progress_bar"]
    several = [("callbacks", "progress bar", bars)]
    several += [("plugins", kind.__name__, [one for one in plugins if isinstance(one, kind)]) for kind in KINDS]
    for name, role, found in several:
        if len(found) > 1:
            names = " and ".join(type(one).__name__ for one in found)
            yield Problem(f"{name} holds {names}: expected at most one {role}. Take one out.")
        if found and role == "Precision" and parts.get("train") is not None:
            yield Problem(
                f"precision={shown(precision)} and plugins=[{type(found[0]).__name__}(...)]: two number formats. Leave "
                "precision out, or take the plug-in out."
            )
    for callback in callbacks:
        flag = ROLES.get(getattr(callback, "role", ""), "")
        if get(flag) is False:
            kind = callback if isinstance(callback, type) else type(callback)
            both_said = (
                f"{flag}=False and callbacks=[{kind.__name__}(...)]: the flag turns off what the callback does. Take "
                f"the callback out, or leave {flag} out."
            )
            yield problem_of(ConfigError(both_said, code="LT123"))


def two_batches(given: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem where both arguments say how many batches make a step."""
    total, batches = given.get("global_batch_size"), given.get("accumulate_grad_batches")
    if total is not None and batches is not None:
        text = (
            f"global_batch_size={shown(total)} and accumulate_grad_batches={shown(batches)}: each says how many "
            "batches make a step. Leave one of them out."
        )
        yield problem_of(ConfigError(text, code="LT763"))
