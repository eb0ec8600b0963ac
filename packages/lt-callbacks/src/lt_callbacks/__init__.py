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
    "BatchSizeFinder": "finders.batch_size_finder",
    "Callback": "lt_core.callback",
    "Checkpoint": "checkpoint.base",
    "DeviceStatsMonitor": "monitors.device_stats",
    "EMAWeightAveraging": "averaging.weight_averaging",
    "EarlyStopping": "stopping.early_stopping",
    "GarbageCollection": "garbage_collection",
    "GradientAccumulationScheduler": "gradient_accumulation_scheduler",
    "LambdaCallback": "lambda_function",
    "LearningRateFinder": "finders.lr_finder",
    "LearningRateMonitor": "monitors.learning_rate",
    "MemorySnapshot": "monitors.memory_snapshot",
    "ModelCheckpoint": "checkpoint.model_checkpoint",
    "ModelPruning": "pruning",
    "ModelSummary": "summary.model_summary",
    "NaNGuard": "monitors.nan_guard",
    "NonFiniteError": "monitors.nan_guard",
    "OnExceptionCheckpoint": "checkpoint.on_exception",
    "OptunaPruning": "stopping.optuna_pruning",
    "ProgressBar": "progress.progress_bar",
    "RankTimes": "monitors.slow_rank",
    "RichModelSummary": "summary.rich_model_summary",
    "RichProgressBar": "progress.rich_progress",
    "RichProgressBarTheme": "progress.rich_progress",
    "ServingCheck": "serving",
    "ServingReport": "serving",
    "SlowRankMonitor": "monitors.slow_rank",
    "SpikeDetection": "monitors.spike",
    "StochasticWeightAveraging": "averaging.stochastic_weight_avg",
    "TQDMProgressBar": "progress.tqdm_progress",
    "ThroughputMonitor": "monitors.throughput",
    "Timer": "stopping.timer",
    "TrainingSpikeException": "monitors.spike",
    "Tuner": "finders.tuner",
    "WeightAveraging": "averaging.weight_averaging",
    "check_serving": "serving",
    "when": "filtered",
}
"""Each public name, and the module that it comes from."""

__all__ = sorted(_WHERE)  # noqa: PLE0605  (the table above is the list)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("lt-callbacks")
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module if module.startswith("lt_core") else f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
