"""Values of the Trainer's arguments that Lightning 2.6.6 takes with a meaning, and lt refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isinf
from typing import Any

from lt_core.errors import ConfigError, warn

__all__ = ["as_lts_value", "without_contradictions"]

_FLAGS = frozenset(
    {
        *("barebones", "benchmark", "detect_anomaly", "deterministic", "enable_checkpointing", "enable_model_summary"),
        *("enable_progress_bar", "inference_mode", "sync_batchnorm", "use_distributed_sampler"),
    }
)
_COUNTS = frozenset(
    {
        *(
            "accumulate_grad_batches",
            "check_val_every_n_epoch",
            "devices",
            "log_every_n_steps",
            "max_epochs",
            "max_steps",
        ),
        *("min_epochs", "min_steps", "num_nodes", "num_sanity_val_steps", "reload_dataloaders_every_n_epochs"),
    }
)
_PARTS = frozenset(
    {
        *("limit_predict_batches", "limit_test_batches", "limit_train_batches", "limit_val_batches"),
        *("overfit_batches", "val_check_interval"),
    }
)
_NEGATIVE: Mapping[str, Callable[[float], float]] = {
    "check_val_every_n_epoch": abs,
    "gradient_clip_val": lambda value: 0.0,
    "log_every_n_steps": abs,
    "min_epochs": lambda value: 0,
    "min_steps": lambda value: 0,
    "num_sanity_val_steps": lambda value: value if value == -1 else 0,
}
"""Meanings of numbers below 0."""


def as_lts_value(name: str, value: Any) -> Any:
    """Return an argument's value in the type that lt takes; as it is where Lightning refuses or mistakes it.

    Lightning compares and computes with what it is given: True counts as 1, 2.0 as 2, any object as a flag. A word does
    too (``"False"`` is true there), and so stays lt's error.
    """
    if name in _FLAGS:
        return value if value is None or (isinstance(value, str) and value) else bool(value)
    if name in ("callbacks", "logger") and isinstance(value, int | float | str) and not value:
        return False if name == "logger" else None
    if name == "fast_dev_run":
        return int(value) if isinstance(value, float) or (isinstance(value, str) and value.isdecimal()) else value
    if isinstance(value, bool) and name in _COUNTS | _PARTS | {"gradient_clip_val"}:
        value = int(value)
    if isinstance(value, float) and name in _COUNTS and (value.is_integer() or isinf(value)):
        value = -1 if isinf(value) else int(value)
    if isinstance(value, float) and name in _PARTS - {"overfit_batches"} and value > 1 and value.is_integer():
        value = int(value)
    if name in _NEGATIVE and isinstance(value, int | float) and value < 0:
        value = _NEGATIVE[name](value)
    return value


def without_contradictions(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments without those that Lightning passes over beside others."""
    new, get = dict(given), given.get
    if get("overfit_batches"):
        for name in ("limit_train_batches", "limit_val_batches"):
            if get(name) not in (None, 0):
                new[name] = None
    for least, most in (("min_epochs", "max_epochs"), ("min_steps", "max_steps")):
        low, high = get(least), get(most)
        if isinstance(low, int) and isinstance(high, int) and 0 <= high < low:
            new[least] = high
    if "check_val_every_n_epoch" in given and get("check_val_every_n_epoch") is get("val_check_interval") is None:
        new["check_val_every_n_epoch"] = 1
    callbacks = get("callbacks") or ()
    roles = {getattr(cb, "role", "") for cb in (callbacks if isinstance(callbacks, list | tuple) else [callbacks])}
    if get("enable_model_summary") is False and "summary" in roles:
        new["enable_model_summary"] = None
    if "exception_checkpoint" in roles and "checkpoint" not in roles:
        if get("enable_checkpointing") is False:
            raise ConfigError(
                "Trainer: enable_checkpointing=False and callbacks=[OnExceptionCheckpoint(...)]: the flag turns off "
                "what the callback does. Take the callback out, or leave enable_checkpointing out.",
                code="LT123",
            )
        new["enable_checkpointing"] = False  # it stands for the default one
    if get("strategy") == "single_device" and isinstance(get("devices"), int) and new["devices"] > 1:
        warn(
            f"Trainer(strategy='single_device', devices={get('devices')}): one device is used. Write strategy='ddp', "
            "or devices=1.",
            code="LT951",
        )
        new["devices"] = 1
    return new
