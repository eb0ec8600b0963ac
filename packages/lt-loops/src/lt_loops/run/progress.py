"""How much of a fit is done, in every unit that a duration has; the tokens are counted here."""

from __future__ import annotations

import math
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from lt_core.duration import SLACK, UNITS, Duration, Unit
from lt_core.errors import ConfigError, did_you_mean
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.plugins import install_hint

if TYPE_CHECKING:
    from lt_core.strategy import Strategy
    from lt_loops.arguments.limits import Limits
    from lt_loops.run.ahead import Ahead
    from lt_loops.run.data import TrainingData
    from lt_loops.setup.hook_calls import HookCalls


class Counting(Protocol):
    """Goes by durations, in part: the learning-rate schedulers."""

    def begin_counting(self, progress: Progress) -> bool:
        """Count from here on; return whether anything is to be counted."""

    def catch_up(self, progress: Progress) -> None:
        """Do what is reached."""


class Progress:
    """Answers how much is done, and counts tokens where the module says how many a batch has."""

    __slots__ = ("_ahead", "_amount", "_data", "_limits", "_module", "_schedulers", "_start", "_strategy")

    def __init__(
        self,
        ahead: Ahead,
        data: TrainingData,
        limits: Limits,
        amount: Duration | None,
        module: LightningModule,
        strategy: Strategy,
    ) -> None:
        """Have counted nothing; ``limits`` may change while the run goes on; ``amount`` ends it too."""
        self._ahead, self._data, self._limits, self._amount = ahead, data, limits, amount
        self._module, self._strategy = module, strategy
        self._schedulers: Counting | None = None
        self._start: dict[Unit, float] = {}

    def begin_training(self, hooks: HookCalls, schedulers: Counting) -> None:
        """Look at each batch from here on, where the module counts tokens or a scheduler goes by more than steps."""
        for unit in UNITS:
            with suppress(ConfigError):  # nothing counts it
                self._start[unit] = self.elapsed(unit)
        by_duration = schedulers.begin_counting(self)
        self._schedulers = schedulers if by_duration else None
        if by_duration or self._counts_tokens:
            hooks.take_first("on_train_batch_end", self._after_batch)

    def elapsed(self, unit: Unit, *, at_start: bool = False) -> float:
        """Return how much of the fit is done, or was when this process began to train: training batches of this rank,
        optimizer steps, epochs, samples and tokens of all ranks, seconds of training, or the part of the ``"run"`` from
        0.0 to 1.0.

        Raises:
            ConfigError: for another unit; for tokens and samples that nothing counts; for a run without a limit.
        """
        if at_start and unit in self._start:
            return self._start[unit]
        position = self._ahead.position
        if unit == "steps":
            return position.step
        if unit == "batches":
            return position.total_batches + position.batch
        if unit == "epochs":
            return position.epoch + self._part_of_epoch()
        if unit == "samples":
            return self._samples()
        if unit == "tokens":
            if not self._counts_tokens:
                raise ConfigError(
                    f"A duration in tokens: expected {type(self._module).__name__} to say how many tokens a batch has. "
                    "Define count_tokens(self, batch) in it: def count_tokens(self, batch): return "
                    "batch['input_ids'].numel()",
                    code="LT359",
                )
            return position.tokens
        if unit == "seconds":
            return self._data.seconds
        if unit == "run":
            return self._part_of_run()
        raise ConfigError(
            f"trainer.elapsed({unit!r}): expected {', '.join(map(repr, UNITS))}.{did_you_mean(unit, UNITS)}",
            code="LT360",
        )

    def next_multiple(self, duration: Duration, passed: int) -> int:
        """Return the batch of this epoch at which the multiple after ``passed`` ones can be reached at the earliest."""
        ahead, amount = self._ahead, math.ceil((passed + 1) * duration.amount - SLACK)
        if duration.unit == "steps":
            return max(ahead.batch_of_step(amount), ahead.position.batch + 1)
        return ahead.position.batch + ahead.group

    @property
    def _counts_tokens(self) -> bool:
        return is_overridden(self._module, "count_tokens", LightningModule)

    def _after_batch(self, outputs: Any, batch: Any, index: int) -> None:
        """Count the batch's tokens on all ranks; step the schedulers that go by what is counted."""
        if self._counts_tokens:
            feed = self._data.feed
            stands_in = feed is not None and feed.uneven and feed.weight == 0.0
            own = 0 if stands_in else int(self._module.count_tokens(batch))
            alone = self._strategy.world_size == 1
            self._ahead.position.add_tokens(own if alone else sum(self._strategy.gather_objects(own)))
        if self._schedulers is not None and not self._ahead.position.micro:
            self._schedulers.catch_up(self)

    def _samples(self) -> float:
        feed = self._data.feed
        if feed is not None and feed.samples is None:
            if find_spec("lt_data") is None:
                raise ConfigError(
                    f"A duration in samples: counting them comes with lt-data: {install_hint('lt-data')}.", code="LT356"
                )
            raise ConfigError(
                "A duration in samples: this training loader does not say how many samples were read (a stream, or "
                "batches of its own sampler). Expected a DataLoader with a batch_size and a length; or take steps.",
                code="LT356",
            )
        return self._data.global_samples

    def _part_of_epoch(self) -> float:
        position, batches = self._ahead.position, self._ahead.num_batches
        if position.exhausted:
            return 1.0
        return position.batch / batches if batches else 0.0  # 0.0 where the length is unknown

    def _part_of_run(self) -> float:
        """Return how near the nearest limit is."""
        limits, amount = self._limits, self._amount
        most: dict[Unit, float] = {"steps": limits.max_steps, "epochs": limits.max_epochs or -1}
        if amount is not None:
            most[amount.unit] = amount.amount
        parts = [self.elapsed(unit) / end for unit, end in most.items() if end > 0]
        if not parts:
            raise ConfigError(
                "A duration as a part of the run: expected a limit of the run that all ranks see alike. Give the "
                "Trainer max_epochs, max_steps or max_duration.",
                code="LT361",
            )
        return max(parts)
