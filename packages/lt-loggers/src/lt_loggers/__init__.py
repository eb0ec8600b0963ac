"""Loggers for lt: CSV, TensorBoard, JSON lines, memory, and third-party experiment trackers, each of those an extra.

Nothing is imported before it is used: ``import lt_loggers`` costs microseconds, and a tracker's library is imported
when its first run opens.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lt_loggers.comet import CometLogger
    from lt_loggers.csv_file import CSVLogger
    from lt_loggers.jsonl import JSONLLogger
    from lt_loggers.memory import MemoryLogger
    from lt_loggers.mlflow import MLFlowLogger
    from lt_loggers.opentelemetry import OpenTelemetryLogger
    from lt_loggers.stdout import StdoutLogger
    from lt_loggers.tensorboard.logger import TensorBoardLogger
    from lt_loggers.trackio import TrackioLogger
    from lt_loggers.wandb import WandbLogger

__all__ = [
    "CSVLogger",
    "CometLogger",
    "JSONLLogger",
    "MLFlowLogger",
    "MemoryLogger",
    "OpenTelemetryLogger",
    "StdoutLogger",
    "TensorBoardLogger",
    "TrackioLogger",
    "WandbLogger",
]

_HOMES = {
    "CSVLogger": "csv_file",
    "CometLogger": "comet",
    "JSONLLogger": "jsonl",
    "MLFlowLogger": "mlflow",
    "MemoryLogger": "memory",
    "OpenTelemetryLogger": "opentelemetry",
    "StdoutLogger": "stdout",
    "TensorBoardLogger": "tensorboard.logger",
    "TrackioLogger": "trackio",
    "WandbLogger": "wandb",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("lt-loggers")
    if name not in _HOMES:
        raise AttributeError(f"module 'lt_loggers' has no attribute {name!r}")
    found = getattr(import_module(f"lt_loggers.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
