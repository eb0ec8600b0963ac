"""Callbacks for lt: checkpoints, early stopping, progress bars, summaries, monitors, averaging, finders, profilers.

Names load when they are used; importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WHERE = {
    "BackboneFinetuning": "finetuning",
    "BaseFinetuning": "finetuning",
    "BasePredictionWriter": "prediction_writer",
    "BatchSizeFinder": "batch_size_finder",
    "Callback": "lt_core.callback",
    "Checkpoint": "checkpoint_base",
    "DeviceStatsMonitor": "device_stats_monitor",
    "EMAWeightAveraging": "weight_averaging",
    "EarlyStopping": "early_stopping",
    "GradientAccumulationScheduler": "gradient_accumulation_scheduler",
    "LambdaCallback": "lambda_function",
    "LearningRateFinder": "lr_finder",
    "LearningRateMonitor": "lr_monitor",
    "MemorySnapshot": "memory_snapshot",
    "ModelCheckpoint": "model_checkpoint",
    "ModelPruning": "pruning",
    "ModelSummary": "model_summary",
    "NaNGuard": "nan_guard",
    "NonFiniteError": "nan_guard",
    "OnExceptionCheckpoint": "on_exception_checkpoint",
    "ProgressBar": "progress.progress_bar",
    "RichModelSummary": "rich_model_summary",
    "RichProgressBar": "progress.rich_progress",
    "RichProgressBarTheme": "progress.rich_progress",
    "SpikeDetection": "spike",
    "StochasticWeightAveraging": "stochastic_weight_avg",
    "TQDMProgressBar": "progress.tqdm_progress",
    "ThroughputMonitor": "throughput_monitor",
    "Timer": "timer",
    "TrainingSpikeException": "spike",
    "Tuner": "tuner",
    "WeightAveraging": "weight_averaging",
}
"""Each public name, and the module that it comes from."""

__all__ = sorted(_WHERE)  # noqa: PLE0605  (the table above is the list)


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module if module.startswith("lt_core") else f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
