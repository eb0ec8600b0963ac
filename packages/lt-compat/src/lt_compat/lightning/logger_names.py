"""Names that loggers of other packages import from Lightning's: plain hyperparameters, new checkpoints."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from lt_core.checkpoint import CheckpointIO
from lt_core.logger import Logger

__all__ = [
    "LightningLoggerBase",
    "WrappingCheckpointIO",
    "add_prefix",
    "convert_params",
    "flatten_dict",
    "sanitize_callables",
    "scan",
]


def convert_params(params: Any) -> Any:
    """Return a Namespace as a dict, and None as an empty one."""
    return vars(params) if isinstance(params, Namespace) else {} if params is None else params


def flatten_dict(params: Mapping[Any, Any], delimiter: str = "/", parent_key: str = "") -> dict[str, Any]:
    """Return ``{"a/b": 1}`` for ``{"a": {"b": 1}}``; lists of dicts by their places."""
    flat: dict[str, Any] = {}
    for key, given in params.items():
        path = f"{parent_key}{delimiter}{key}" if parent_key else str(key)
        value = asdict(given) if is_dataclass(given) and not isinstance(given, type) else given
        value = vars(value) if isinstance(value, Namespace) else value
        if isinstance(value, list) and all(isinstance(item, MutableMapping) for item in value):
            for place, item in enumerate(value):
                flat |= flatten_dict(item, delimiter, f"{path}/{place}")
        elif isinstance(value, MutableMapping):
            flat |= flatten_dict(value, delimiter, path)
        else:
            flat[path] = value
    return flat


def sanitize_callables(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``params`` with callables replaced by their results, or by their names."""
    return {key: _result_or_name(value) for key, value in params.items()}


def _result_or_name(value: Any) -> Any:
    if isinstance(value, type):
        return value.__name__
    if not callable(value):
        return value
    try:
        result = value()
    except Exception:
        return getattr(value, "__name__", None)
    return value.__name__ if callable(result) else result


def add_prefix(metrics: Mapping[str, Tensor | float], prefix: str, separator: str) -> Mapping[str, Tensor | float]:
    """Return ``metrics`` with ``prefix`` and ``separator`` before each name."""
    return {f"{prefix}{separator}{name}": value for name, value in metrics.items()} if prefix else metrics


def scan(checkpoint_callback: Any, logged_model_time: Mapping[str, float]) -> list[tuple[float, str, Any, str]]:
    """Return time, path, score and kind of a callback's checkpoints that are newer than the logged ones."""
    found = {
        getattr(checkpoint_callback, path): (getattr(checkpoint_callback, score), kind)
        for path, score, kind in (
            ("last_model_path", "current_score", "latest"),
            ("best_model_path", "best_model_score", "best"),
        )
        if hasattr(checkpoint_callback, path) and hasattr(checkpoint_callback, score)
    }
    found |= {path: (score, "best_k") for path, score in getattr(checkpoint_callback, "best_k_models", {}).items()}
    there = ((Path(p).stat().st_mtime, p, *said) for p, said in found.items() if p and Path(p).is_file())
    return sorted(each for each in there if logged_model_time.get(each[1], -1.0) < each[0])


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``params`` with all but numbers, booleans, strings and tensors as text."""
    return {
        key: value if isinstance(value, bool | int | float | str | Tensor) else str(value)
        for key, value in params.items()
    }


class LightningLoggerBase(Logger):
    """The base of loggers that were written for Lightning 1.x, with the members that it gave them.

    Args:
        agg_key_funcs: how values of one step are put together; lt logs each of them.
        agg_default_func: likewise.
    """

    LOGGER_JOIN_CHAR = "-"

    def __init__(self, agg_key_funcs: Any = None, agg_default_func: Any = None) -> None:
        super().__init__()
        self._prefix = ""

    def _add_prefix(self, metrics: Mapping[str, Any]) -> Mapping[str, Any]:
        return add_prefix(metrics, self._prefix, self.LOGGER_JOIN_CHAR)

    _convert_params = staticmethod(convert_params)
    _flatten_dict = staticmethod(flatten_dict)
    _sanitize_callable_params = staticmethod(sanitize_callables)
    _sanitize_params = staticmethod(plain_params)

    def agg_and_log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Log metrics."""
        self.log_metrics(metrics, step)


class WrappingCheckpointIO(CheckpointIO):
    """Hands everything to another CheckpointIO; the base of users' own.

    Args:
        checkpoint_io: the other; lt's default where it is None.
    """

    def __init__(self, checkpoint_io: CheckpointIO | None = None) -> None:
        self.checkpoint_io = checkpoint_io or CheckpointIO()

    def save_checkpoint(self, *given: Any, **named: Any) -> None:
        self.checkpoint_io.save_checkpoint(*given, **named)

    def load_checkpoint(self, *given: Any, **named: Any) -> dict[str, Any]:
        return self.checkpoint_io.load_checkpoint(*given, **named)

    def remove_checkpoint(self, *given: Any, **named: Any) -> None:
        self.checkpoint_io.remove_checkpoint(*given, **named)
