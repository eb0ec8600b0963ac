"""When a fit validates, and the feeds of validation, test and prediction."""

from __future__ import annotations

import math
from datetime import timedelta

from lt_core.data import Feed
from lt_core.duration import SLACK, AgreedTime, Duration, Every
from lt_core.errors import ConfigError, warn
from lt_core.seed import capture_generators
from lt_loops.run.elapsed import Elapsed, counted_by
from lt_loops.run.feeds import Feeds
from lt_loops.run.job import Context, Owner
from lt_loops.setup.hooks import defines
from lt_loops.state.origin import Saved, StateDict
from lt_loops.state.position import NEVER


class Evaluation(Owner):
    """Says when a validation is due, keeps the feeds, counts the batches that were logged.

    While a validation inside ``fit`` runs, checkpoints hold the state from before it: a run that ends in it, and
    resumes, does it again.

    Attributes:
        before: generators and steps at the begin of a validation inside ``fit`` that did not come to its end.
    """

    def __init__(self, context: Context, feeds: Feeds, elapsed: Elapsed) -> None:
        super().__init__(context)
        self._feeds, self._elapsed = feeds, elapsed
        self._clock: AgreedTime | None = None  # since the last validation
        self._every: Every | tuple[str, int] | None = None  # of val_check_interval, or its count in a checkpoint
        self._made: dict[str, list[Feed]] = {}
        self._steps: dict[str, int] = {}
        self.before: tuple[StateDict, dict[str, int]] | None = None

    def __getstate__(self) -> StateDict:
        return {**vars(self), "_made": {}}

    @property
    def validates(self) -> bool:
        """Whether this fit has a validation at all."""
        return (
            self._limits.limit_val_batches != 0
            and defines(self._module, "validation_step")
            and self._job.loaders.has("validate")
        )

    def check_interval(self) -> None:
        """Refuse a ``val_check_interval`` that never comes, before the first step; warn of one behind the run's end.

        Raises:
            ConfigError: for a count longer than the epoch, or a fraction of an epoch of unknown length.
        """
        interval, batches = self._limits.val_check_interval, self._agenda.num_batches
        self.warn_if_none(at_end=False)
        if self._limits.check_val_every_n_epoch is None or not batches or not self.validates:
            return
        if isinstance(interval, int) and interval > batches:
            raise ConfigError(
                f"val_check_interval={interval} is longer than the epoch of {batches} training batches, so there would "
                "be no validation. Take a smaller one, or check_val_every_n_epoch=None to count batches across epochs.",
                code="LT407",
            )
        if isinstance(interval, float) and interval != 1.0 and batches == math.inf:
            raise ConfigError(
                f"val_check_interval={interval}: a fraction of the epoch needs a training loader with a length, and "
                "this one has none. Take a count of batches, or 1.0.",
                code="LT407",
            )

    def warn_if_none(self, *, at_end: bool) -> None:
        """Warn where the first validation that the user asks for is behind the end, ``at_end`` if not known before."""
        interval, every = self._limits.val_check_interval, self._limits.check_val_every_n_epoch
        if every is None or isinstance(interval, timedelta | Duration):
            name = "val_check_interval"
            asked = Duration(interval, "batches") if isinstance(interval, int | float) else Duration.of_any(interval)
        elif every == 1:  # the default; max_steps may cut the epoch short
            return
        else:
            name, asked = "check_val_every_n_epoch", Duration(every, "epochs")
        elapsed, enough = self._elapsed, asked.amount - SLACK
        known = elapsed.ends().get(asked.unit, math.inf) < enough
        if at_end:  # nothing where it is known since the start, or a run that this one resumes may have validated
            is_new = not known and not elapsed.elapsed("batches", at_start=True)
            known = is_new and 0 < elapsed.elapsed(asked.unit) < enough
        if known and self.validates:
            warn(f"{name}={asked}: training ends before that, so there is no validation. Take less.", code="LT362")

    def is_due(self, *, at_stop: bool) -> bool:
        """Return whether a validation is due between these two batches.

        ``at_stop``: training ends here by request; the metrics of this state are wanted.
        """
        position, here = self._position, self._position.batch
        # made at the boundary where the run begins, where all ranks stand, and one that resumes may validate
        self._clock = self._clock or AgreedTime(position.batches - 1)
        if position.validated == here or not self.validates:
            return False
        if not here:  # before the first batch, once
            return self._settings.validate_at_start and not position.epoch
        if at_stop or not self._in_this_epoch():
            return self._in_this_epoch()
        interval = self._limits.val_check_interval
        if isinstance(interval, timedelta):  # since the last validation
            seconds = self._elapsed.elapsed("seconds") - position.validated_seconds
            return self._clock.left(interval.total_seconds() - seconds, self._elapsed) <= 0
        every = self._multiples
        # No `here >= next_due()` of the last boundary: that is a lower bound for steps (a scaler skips some), samples,
        # tokens and seconds; a boundary that a group or a request asks for early would renew it, and so put off a
        # validation by time; and an interval that a hook makes shorter in mid-epoch would have its past multiples due.
        return self._batch_after(here - 1) == here if every is None else every.is_due(count=False)

    def next_due(self) -> int:
        if not self.validates or not self._in_this_epoch():
            return NEVER
        every = self._multiples
        if self._clock is not None and isinstance(self._limits.val_check_interval, timedelta):
            return self._elapsed.next_look(self._clock)
        return self._batch_after(self._position.batch) if every is None else self._elapsed.next_due(every)

    def _in_this_epoch(self) -> bool:
        every = self._limits.check_val_every_n_epoch
        return (
            every is None
            or isinstance(self._limits.val_check_interval, Duration)
            or (self._position.epoch + 1) % every == 0
        )

    @property
    def _multiples(self) -> Every | None:
        """The interval where it is a duration; None for a count of batches and for a time."""
        interval = self._limits.val_check_interval
        if not isinstance(interval, Duration):
            return None
        self._every = every = self._elapsed.every(interval, self._every)
        return every

    def _batch_after(self, batch: int) -> int:
        """Return the first one of this epoch after ``batch`` at which a count of batches has a validation."""
        interval, batches, position = self._limits.val_check_interval, self._agenda.num_batches, self._position
        if isinstance(interval, float):
            if interval == 1.0 or batches == math.inf:
                return position.batch if self._agenda.at_end() else NEVER
            interval = max(int(batches * interval), 1)
        assert isinstance(interval, int)
        before = position.total_batches if self._limits.check_val_every_n_epoch is None else 0
        return batch + interval - (before + batch) % interval

    def feeds(self, stage: str) -> list[Feed]:
        """Return the feeds of a stage, made at the first use and kept for the run."""
        if stage not in self._made:
            self._made[stage] = self._feeds.evaluation(stage)
        return self._made[stage]

    def feeds_made(self, stage: str) -> list[Feed] | None:
        return self._made.get(stage)

    def drop_outdated(self) -> None:
        """Let go of the feeds of the validation where its loaders must be asked for again."""
        if self._feeds.are_outdated("validate"):
            self._job.loaders.forget("validate")
            for feed in self._made.pop("validate", ()):
                feed.close()

    def reload(self, stage: str) -> None:
        """Ask for the loaders of ``stage`` again, and read those where the present ones are about to be read."""
        made = self._made[stage]
        for feed in made:
            feed.close()
        self._job.loaders.forget(stage)
        made[:] = self._feeds.evaluation(stage)

    def open_feeds(self) -> list[Feed]:
        return [feed for feeds in self._made.values() for feed in feeds]

    def begin(self) -> None:
        """Note the state of now, which checkpoints hold until a validation inside ``fit`` comes to its end."""
        self.before = capture_generators(), dict(self._steps)

    def validated(self) -> None:
        position = self._position
        position.validated, position.validated_seconds = position.batch, position.seconds
        self._clock = AgreedTime(position.batches)
        if (every := self._multiples) is not None:
            self._every = Every(every.duration, self._elapsed, ("", 0))  # counts from here on

    def next_step(self, stage: str) -> int:
        """Count the batches of ``stage`` whose step values went to the loggers: their x axis."""
        count = self._steps.get(stage, -1) + 1
        self._steps[stage] = count
        return count

    def shared_state(self) -> StateDict:
        steps = dict(self._steps) if self.before is None else self.before[1]
        return {"eval_steps": steps, "val_check_passed": counted_by(self._every)}

    def rank_state(self) -> StateDict:
        """Return the random generators."""
        return {"generators": capture_generators() if self.before is None else self.before[0]}

    def load_counts(self, saved: Saved) -> None:
        self._steps.update(saved.shared.get("eval_steps", {}))
        self._every = saved.shared.get("val_check_passed")

    def continue_from(self, last: Evaluation) -> None:
        self._steps.update(last._steps)
        self._every = counted_by(last._every)
