"""How much of a fit is done, in every unit that a duration has, and at which batch more of it can be."""

import math
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from lt_core.duration import UNITS, AgreedTime, Duration, Every, Unit
from lt_core.errors import ConfigError, did_you_mean
from lt_core.plugins import install_hint
from lt_loops.run.data import TrainingData
from lt_loops.run.job import Context, Owner
from lt_loops.setup.hooks import HookCalls, defines
from lt_loops.state.position import NEVER


class Elapsed(Owner):
    """How much of a fit is done; counts tokens where the module says how many a batch has."""

    def __init__(self, context: Context, data: TrainingData) -> None:
        super().__init__(context)
        self._data = data
        self._start: dict[Unit, float] = {}
        self._seen = (1 << 62, 0.0, math.inf)  # batches and samples at the last look, samples of a batch

    def begin_training(self, hooks: HookCalls) -> None:
        """Note how far the fit is where this process begins to train; count tokens from here on, if the module does."""
        for unit in UNITS:
            with suppress(ConfigError):  # nothing counts it
                self._start[unit] = self.elapsed(unit)
        self._seen = self._position.batches, self._start.get("samples", 0.0), math.inf
        if self._counts_tokens:
            hooks.call_first("on_train_batch_end", self._count_tokens)

    def elapsed(self, unit: Unit, *, at_start: bool = False) -> float:
        """See :meth:`~lt_loops.view.TrainerView.elapsed`, which users call."""
        if at_start and unit in self._start:
            return self._start[unit]
        position = self._position
        match unit:
            case "steps":
                return position.step
            case "batches":
                return position.batches
            case "epochs":
                batches = self._agenda.num_batches
                if position.exhausted:
                    return position.epoch + 1.0
                return position.epoch + (position.batch / batches if batches else 0.0)  # of unknown length: 0.0
            case "samples":
                return self._samples()
            case "tokens" if self._counts_tokens:
                return position.tokens
            case "tokens":
                raise ConfigError(
                    f"A duration in tokens: expected {type(self._module).__name__} to say how many tokens a batch has. "
                    "Define count_tokens(self, batch) in it: def count_tokens(self, batch): return "
                    "batch['input_ids'].numel()",
                    code="LT359",
                )
            case "seconds":
                return self._data.seconds
            case "run" if ends := self.ends():  # the nearest limit counts
                return max(self.elapsed(of) / end for of, end in ends.items())
            case "run":
                raise ConfigError(
                    "A duration given as a fraction of the run needs a limit of the run that all ranks see alike. Give "
                    "the Trainer max_epochs, max_steps or max_time.",
                    code="LT361",
                )
        raise ConfigError(
            f"trainer.elapsed({unit!r}): expected {', '.join(map(repr, UNITS))}.{did_you_mean(unit, UNITS)}",
            code="LT360",
        )

    @property
    def world_size(self) -> int:
        return self._strategy.world_size

    def broadcast(self, value: Any) -> Any:
        return self._strategy.broadcast(value)

    def every(self, duration: Duration, last: Every | tuple[str, int] | None) -> Every:
        """Return ``last`` if it counts ``duration``, else an interval that goes on from its count."""
        if isinstance(last, Every) and last.duration == duration:
            return last
        return Every(duration, self, counted_by(last))

    def next_due(self, every: Every) -> int:
        """Return the batch of this epoch at which ``every`` can be due at the earliest."""
        unit = every.duration.unit
        return self.next_look(every.clock) if unit == "seconds" else self.batch_of(unit, every.next_due)

    def next_look(self, clock: AgreedTime) -> int:
        """Return the batch of this epoch at which a time is asked for next."""
        position = self._position
        return max(int(clock.asks_at) - position.total_batches, position.batch + self._agenda.group)

    def batch_of(self, unit: Unit, amount: float) -> int:
        """Return the next batch of this epoch at which ``amount`` can have elapsed at the earliest."""
        return max(self._earliest(unit, amount), self._position.batch + 1)

    def _earliest(self, unit: Unit, amount: float) -> int:
        agenda, position = self._agenda, self._position
        match unit:
            case "steps":
                return agenda.batch_of_step(math.ceil(amount))
            case "batches":
                return math.ceil(amount) - position.total_batches
            case "epochs":
                if (part := amount - position.epoch) <= 0:
                    return 0
                return NEVER if part >= 1 or agenda.num_batches == math.inf else math.ceil(part * agenda.num_batches)
            case "run":
                return min((self._earliest(of, amount * end) for of, end in self.ends().items()), default=NEVER)
            case "samples":  # a batch has no more than the most between two looks so far; of tokens it may
                (batch, samples, pace), here, now = self._seen, position.batches, self._samples()
                if here > batch:  # a look too early costs a little, one too late passes the multiple
                    self._seen = (
                        here,
                        now,
                        max((now - samples) / (here - batch), 0 if pace == math.inf else pace) or pace,
                    )
                return position.batch + max(math.ceil((amount - now) / self._seen[2]), agenda.group)
        return position.batch + agenda.group

    @property
    def _counts_tokens(self) -> bool:
        return defines(self._module, "count_tokens")

    def _count_tokens(self, outputs: Any, batch: Any, index: int) -> None:
        feed = self._data.feed
        stands_in = feed is not None and feed.weight == 0.0
        own = 0 if stands_in else int(self._module.count_tokens(batch))
        self._position.tokens += sum(self._strategy.gather_objects(own))

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

    def ends(self) -> dict[Unit, float]:
        """Return the limits of the run that all ranks see alike."""
        limits, amount = self._limits, self._settings.amount
        most: dict[Unit, float] = {"steps": limits.max_steps, "epochs": limits.max_epochs or -1}
        if amount is not None:
            most[amount.unit] = amount.amount
        return {unit: end for unit, end in most.items() if end > 0}


def counted_by(every: Every | tuple[str, int] | None) -> tuple[str, int] | None:
    """Return the count of an interval as plain data."""
    return every.counted if isinstance(every, Every) else every
