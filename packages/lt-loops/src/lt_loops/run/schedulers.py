"""When learning-rate schedulers step."""

from typing import Any

from torch import Tensor

from lt_core.duration import multiples
from lt_core.errors import ConfigError, did_you_mean, nearest_name, warn
from lt_loops.run.elapsed import Elapsed
from lt_loops.run.evaluation import Evaluation
from lt_loops.run.job import Context, Owner
from lt_loops.setup.hooks import Hook, HookCalls, adapted, defines
from lt_loops.setup.scheduler_config import SchedulerConfig
from lt_loops.state.position import NEVER


class Schedulers(Owner):
    """Steps the learning-rate schedulers of a fit; in manual optimization the user does.

    Attributes:
        configs: the schedulers with when they step, in declared order.
    """

    def __init__(self, context: Context, evaluation: Evaluation) -> None:
        super().__init__(context)
        self._evaluation = evaluation
        # a frequency counts the batches of an epoch, as Lightning does; else optimizer steps
        self._by_batch = context.job.policy.schedules_by_batch
        self.configs: list[SchedulerConfig] = []
        self._own_step: Hook | None = None

    def configure(self, configs: list[SchedulerConfig]) -> None:
        self.configs, name = configs, "lr_scheduler_step"
        own = defines(self._module, name)
        self._own_step = adapted(self._module.lr_scheduler_step, name, self._job.policy) if own else None

    def states(self) -> list[Any]:
        """Return the state of each scheduler."""
        return [config.scheduler.state_dict() for config in self.configs]

    def step(self, interval: str, count: int) -> None:
        """Step the schedulers of ``interval`` (``"step"``, ``"epoch"``) whose frequency divides ``count``, from 1.

        Schedulers that go by steps and watch a metric wait for a validation that may be due: :meth:`watch`.
        """
        if self._by_batch and interval == "step":
            count = self._position.batch + (not self._position.exhausted)  # the present batch is not counted yet
        for config in self.configs:
            waits = (config.reduce_on_plateau and interval == "step") or config.every is not None
            if config.interval == interval and count % config.frequency == 0 and not waits:
                self._step_one(config)

    def begin_training(self, elapsed: Elapsed, hooks: HookCalls) -> None:
        """Look at each batch from here on, where one goes by a duration, when ``elapsed`` has counted it."""
        for config in self.configs:
            if config.stepped is None:  # else in the middle of a window a multiple may have passed without its step
                config.stepped = _multiples(config, elapsed, at_start=True)
        if self._module.automatic_optimization and any(config.every is not None for config in self.configs):
            hooks.call_first("on_train_batch_end", lambda *batch: self._catch_up(elapsed))

    def _catch_up(self, elapsed: Elapsed) -> None:
        """Step the schedulers that go by a duration, once for each multiple of it; between windows."""
        for config in self.configs if not self._position.micro else ():
            reached = _multiples(config, elapsed)
            for _ in range(reached - (config.stepped or 0)):
                self._step_one(config)
            config.stepped = reached

    def next_due(self) -> int:
        """Return the batch of this epoch at which the next scheduler that watches a metric may step."""
        batch, of_step = self._position.batch, self._agenda.batch_of_next
        every = [config.frequency for config in self._watching()]
        return min(((batch // n + 1) * n if self._by_batch else of_step(n) for n in every), default=NEVER)

    def watch(self) -> None:
        """Step the schedulers that go by steps and watch a metric, once for each optimizer step that is theirs."""
        position = self._position
        if not position.step or position.watched == position.step or (self._by_batch and position.micro):
            return
        position.watched = position.step
        for config in self._watching():
            if (position.batch if self._by_batch else position.step) % config.frequency == 0:
                self._step_one(config)

    def _watching(self) -> list[SchedulerConfig]:
        if not self._module.automatic_optimization:
            return []
        return [config for config in self.configs if config.reduce_on_plateau and config.interval == "step"]

    def _step_one(self, config: SchedulerConfig) -> None:
        """Step one scheduler, with its monitored value where it wants one."""
        metric = None
        if config.reduce_on_plateau:
            metric = self._monitored(config)
            if metric is None:
                return
        if self._own_step is not None:
            self._own_step(config.scheduler, metric)
        elif metric is None:
            config.scheduler.step()
        else:
            config.scheduler.step(metric)

    def _monitored(self, config: SchedulerConfig) -> Any:
        metrics = self._recorder.callback_metrics()
        found = metrics.get(config.monitor or "")
        value = found.item() if isinstance(found, Tensor) else found
        if self._strategy.world_size > 1 and self._strategy.capabilities.lock_step:
            value = self._strategy.broadcast(value)  # a step's is each rank's own, and rates must stay equal
        if value is not None:
            return value
        message = (
            f"The scheduler {type(config.scheduler).__name__} monitors {config.monitor!r}, which was not logged. "
            f"Logged so far: {', '.join(map(repr, metrics)) or 'nothing'}."
            f"{did_you_mean(config.monitor or '', metrics)} Log it by self.log, or set its 'frequency' so that it "
            "steps when a validation has run."
        )
        off = defines(self._module, "validation_step") and not self._evaluation.validates
        if config.strict and not (off and nearest_name(config.monitor or "", metrics, slip=True) is None):
            raise ConfigError(message, code="LT321")
        warn(message, code="LT321")
        return None


def _multiples(config: SchedulerConfig, elapsed: Elapsed, *, at_start: bool = False) -> int:
    every = config.every
    return 0 if every is None else multiples(elapsed.elapsed(every.unit, at_start=at_start), every)
