"""When learning-rate schedulers step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from lt_core.errors import ConfigError, did_you_mean, warn
from lt_core.module import LightningModule
from lt_core.overrides import is_overridden, nearest_name
from lt_loops.fitted import fitted

if TYPE_CHECKING:
    from lt_loops.run.frame import Run
    from lt_loops.setup.optimizers import SchedulerConfig

__all__ = ["step_epoch_schedulers", "step_schedulers"]


def step_schedulers(run: Run, interval: str, count: int) -> None:
    """Step the schedulers of ``interval`` (``"step"``, ``"epoch"``) whose frequency divides ``count``, from 1.

    Those that go by steps and watch a metric wait for the validation that may be due: :func:`step_plateau_schedulers`.
    """
    for config in run.schedulers:
        waits = config.reduce_on_plateau and interval == "step"
        if config.interval == interval and count % config.frequency == 0 and not waits:
            step_one(run, config)


def step_epoch_schedulers(run: Run) -> None:
    """Step the schedulers that go by epochs, at the end of one; in manual optimization the user steps them."""
    if run.module.automatic_optimization:
        step_schedulers(run, "epoch", run.position.epoch + 1)


def plateau_frequencies(run: Run) -> list[int]:
    """Return how often, in optimizer steps, schedulers that watch a metric step between two batches."""
    if not run.module.automatic_optimization:
        return []
    return [config.frequency for config in run.schedulers if config.reduce_on_plateau and config.interval == "step"]


def step_plateau_schedulers(run: Run) -> None:
    """Step the schedulers that go by steps and watch a metric, once for each optimizer step that is theirs."""
    position = run.position
    if not position.step or position.watched == position.step or not run.module.automatic_optimization:
        return
    position.watched = position.step
    for config in run.schedulers:
        if config.reduce_on_plateau and config.interval == "step" and position.step % config.frequency == 0:
            step_one(run, config)


def step_one(run: Run, config: SchedulerConfig) -> None:
    """Step one scheduler, with its monitored value where it wants one."""
    metric = None
    if config.reduce_on_plateau:
        metric = _monitored(run, config)
        if metric is None:
            return
    if is_overridden(run.module, "lr_scheduler_step", LightningModule):
        fitted(run.module.lr_scheduler_step, "lr_scheduler_step")(config.scheduler, metric)
    elif metric is None:
        config.scheduler.step()
    else:
        config.scheduler.step(metric)


def _monitored(run: Run, config: SchedulerConfig) -> Any:
    metrics = run.recorder.callback_metrics()
    value = metrics.get(config.monitor or "")
    if value is None:
        have = ", ".join(map(repr, metrics)) or "nothing"
        message = (
            f"The scheduler {type(config.scheduler).__name__} monitors {config.monitor!r}, which was not logged. "
            f"Logged so far: {have}.{did_you_mean(config.monitor or '', metrics)} Log it by self.log, or set its "
            "'frequency' so that "
            "it steps when a validation has run."
        )
        off = is_overridden(run.module, "validation_step", LightningModule) and not run.evaluation.validates
        if config.strict and not (off and nearest_name(config.monitor or "", list(metrics)) is None):
            raise ConfigError(message, code="LT321")
        warn(message, code="LT321")
        return None
    return value.item() if isinstance(value, Tensor) else value
