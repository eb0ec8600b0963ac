"""Monitors: the names of metrics that callbacks and schedulers wait for, looked at as soon as something was logged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lt_core.errors import did_you_mean, warn
from lt_core.overrides import nearest_name

if TYPE_CHECKING:
    from lt_loops.run.frame import Run

__all__ = ["check_monitors"]


def check_monitors(run: Run) -> None:
    """Warn, after the sanity check, of monitors that look like metrics of validation and were not logged in it."""
    logged = sorted(run.recorder.callback_metrics())
    for who, monitor in _monitors(run):
        if monitor in logged or not (monitor.startswith("val") or nearest_name(monitor, logged)):
            continue
        warn(
            f"{who} monitors {monitor!r}, and the validation batches of the sanity check did not log it. They logged: "
            f"{', '.join(map(repr, logged)) or 'nothing'}.{did_you_mean(monitor, logged)} If it is not there when "
            "it is due, the run ends with an error.",
            code="LT572",
        )


def _monitors(run: Run) -> Iterator[tuple[str, str]]:
    """Yield who waits for a metric, and its name."""
    for callback in run.callbacks:
        monitor = getattr(callback, "monitor", None) if callback.monitors else None
        if isinstance(monitor, str):
            yield type(callback).__name__, monitor
    for config in run.training.schedulers.configs:
        if config.reduce_on_plateau and config.monitor:
            yield f"The scheduler {type(config.scheduler).__name__}", config.monitor
