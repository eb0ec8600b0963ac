"""Loggers for lt: CSV, TensorBoard, JSON lines, memory, and third-party experiment trackers, each of those an extra.

Beside them are the kinds of media that can be logged: images, figures, histograms, texts, tables, audio and video.
Nothing is imported before it is used: ``import lt_loggers`` costs microseconds, and a tracker's library is imported
when its first run opens.
"""

from __future__ import annotations

from typing import Any

_WHERE = {
    "Audio": ".media",
    "CSVLogger": ".csv_file",
    "CometLogger": ".comet",
    "Figure": ".media",
    "Histogram": ".media",
    "Image": ".media",
    "JSONLLogger": ".jsonl",
    "MLFlowLogger": ".mlflow",
    "Media": ".media",
    "MemoryLogger": ".memory",
    "OpenTelemetryLogger": ".opentelemetry",
    "StdoutLogger": ".stdout",
    "Table": ".media",
    "TensorBoardLogger": ".tensorboard.logger",
    "Text": ".media",
    "TrackerLogger": ".tracker",
    "TrackioLogger": ".trackio",
    "Video": ".media",
    "WandbLogger": ".wandb",
    "as_media": ".media",
}
"""Each public name, and the module that it comes from."""

__all__ = sorted(_WHERE)  # noqa: PLE0605  (the table above is the list)


def __getattr__(name: str) -> Any:
    from lt_core.plugins import load_name

    return load_name(__name__, _WHERE, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
