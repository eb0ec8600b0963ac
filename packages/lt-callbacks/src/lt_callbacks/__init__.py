"""Callbacks for lt: checkpoints, early stopping, progress bars, summaries.

Names load when they are used; importing this package costs nothing.
"""

from __future__ import annotations

from typing import Any

_WHERE = {
    "BasePredictionWriter": ".prediction_writer",
    "Callback": "lt_core.callback",
    "Checkpoint": ".checkpoint.base",
    "EarlyStopping": ".stopping.early_stopping",
    "LambdaCallback": ".lambda_function",
    "LearningRateMonitor": ".monitors.learning_rate",
    "ModelCheckpoint": ".checkpoint.model_checkpoint",
    "ModelSummary": ".summary.model_summary",
    "OnExceptionCheckpoint": ".checkpoint.on_exception",
    "ProgressBar": ".progress.progress_bar",
    "RichModelSummary": ".summary.rich_model_summary",
    "RichProgressBar": ".progress.rich_progress",
    "RichProgressBarTheme": ".progress.rich_progress",
    "TQDMProgressBar": ".progress.tqdm_progress",
    "Timer": ".stopping.timer",
}
"""Each public name, and the module that it comes from."""

__all__ = sorted(_WHERE)  # noqa: PLE0605  (the table above is the list)


def __getattr__(name: str) -> Any:
    from lt_core.plugins import load_name

    return load_name(__name__, _WHERE, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
