"""Where a run ends: limits, time, a user's wish, signals; and why."""

import math
import signal
import time

from lt_core.duration import SLACK, AgreedTime
from lt_core.errors import warn
from lt_loops.arguments.limits import LIMITS
from lt_loops.run.agreement import Agreement
from lt_loops.run.elapsed import Elapsed
from lt_loops.run.job import Context, Owner
from lt_loops.state.position import NEVER


class Stopping(Owner):
    """Decides at each boundary whether the run ends there, and keeps the first reason for it.

    Attributes:
        reason: why the run ends; empty while it goes on.
        requested: whether ``trainer.should_stop`` is set: training ends once ``min_epochs`` and ``min_steps`` are
            reached.
        signal: the signal that asked this process to stop, or all ranks.
        leaving: the run ends at this boundary because of it: no validation, no epoch end.
        announced: the hooks have heard of it.
    """

    def __init__(self, context: Context, elapsed: Elapsed) -> None:
        super().__init__(context)
        self._amount, self._elapsed = self._settings.amount, elapsed
        self._ends, self._clock = math.inf, AgreedTime()  # when max_time is over
        self._agreement: Agreement | None = None
        self.announced = False
        self.reason, self._wish, self._limit = "", "", ""  # the last: the argument that ends the run, if any
        self.requested = self.leaving = False
        self.signal: int | None = None

    def request(self, wanted: bool, reason: str = "") -> None:
        """Note a user's or callback's wish that training ends as soon as it may, and why; or that it goes on."""
        self.requested, self._wish = wanted, (self._wish or reason) if wanted else ""
        self._agenda.request_check()

    def receive_signal(self, number: int) -> None:
        """Note a signal that this process got: obeyed at the next boundary, or at that on which all ranks agree."""
        self.signal = number
        self._agenda.request_check()
        if self._agreement is not None:
            self._agreement.proposed = number
        elif self._limits.global_batch_size is None:
            self._leave(number)

    def agree_with_ranks(self) -> None:
        """Have a signal that any rank gets stop all of them at the same batch."""
        if self._strategy.world_size > 1:
            self._agreement = Agreement(self._strategy, self._agenda)
            self._agreement.start()

    def close(self) -> None:
        """Stop looking for signals of other ranks."""
        if self._agreement is not None:
            self._agreement.close()

    def begin_training(self) -> None:
        """Begin to count toward the limits of this fit; warn where nothing is left to train.

        Raises:
            ConfigError: for a limit of samples or tokens that nothing counts.
        """
        position = self._position
        if (most := self._settings.max_time) is not None:  # in which earlier processes count
            self._ends = time.perf_counter() + most.total_seconds() - position.passed
            self._clock = AgreedTime(position.batches - 1)  # ranks talk at once: a run that resumes may be over already
        if self._amount is not None:
            self._elapsed.elapsed(self._amount.unit)
        if (position.epoch or position.step) and self.ends_training() and (name := self._limit):
            more = f"set trainer.{name} = ... to a higher value before fit" if name in LIMITS else f"raise {name}"
            warn(
                f"fit trains nothing: {self.reason} (epoch {position.epoch}, optimizer step {position.global_step}). "
                f"To go on {more}; to start over, create a new Trainer.",
                code="LT322",
            )

    def next_due(self) -> int:
        due = NEVER
        if self._limits.max_steps >= 0:
            due = self._agenda.batch_of_step(self._limits.max_steps)
        if self.requested:  # not granted yet: asked again at each boundary, until min_epochs and min_steps are reached
            due = min(due, self._position.batch + self._agenda.group)
        if self._ends < math.inf:
            due = min(due, self._elapsed.next_look(self._clock))
        if (most := self._amount) is not None:
            due = min(due, self._elapsed.batch_of(most.unit, most.amount * (1 - SLACK)))
        return due

    def obeys_signal(self, batches: int | None = None) -> bool:
        """Return whether a signal ends the run at this boundary: after so many batches, default: of training."""
        agreement, position = self._agreement, self._position
        if batches is None and position.micro and self._limits.global_batch_size is not None:
            self._agenda.request_check()  # a part of a step may be no whole number of batches on the ranks of a resume
            return self.leaving
        if agreement is None and self.signal is not None and not self.leaving:
            self._leave(self.signal)
        if agreement is not None and not self.leaving:
            if agreement.reached(position.batches if batches is None else batches):
                self._leave(agreement.signal or 0)
        return self.leaving

    def leaves_wait(self) -> bool:
        """Return whether a signal ends the run where it waits for a batch; several ranks have no such place."""
        return self._agreement is None and self.obeys_signal()

    def begin_evaluation(self) -> None:
        """Have an evaluation outside of ``fit`` look up only where something is asked from here on."""
        self._agenda.asked = False
        if self.leaving or (self._agreement is not None and self._agreement.signal is not None):  # it came before
            self._agenda.request_check()

    def agree_on_signal(self) -> None:
        """Have all ranks obey a signal that one of them got when no batch was left to agree on; all call this."""
        everyone = [self.signal] if self._agreement is None else self._strategy.gather_objects(self.signal)
        found = next((number for number in everyone if number is not None), None)
        if found is not None and not self.leaving:
            self._leave(found)

    def fulfils_request(self) -> bool:
        """Return whether training ends here by request; not before ``min_epochs`` and ``min_steps``."""
        limits, position = self._limits, self._position
        if not self.requested or position.global_step < (limits.min_steps or 0):
            return False
        return position.epoch + self._agenda.at_end() >= (limits.min_epochs or 0)

    def ends_epoch(self) -> bool:
        """Return whether training ends here, in the middle of an epoch or at its end; notes why."""
        limits, position, most = self._limits, self._position, self._amount
        if 0 <= limits.max_steps <= position.global_step:
            self._end(f"max_steps={limits.max_steps} reached", "max_steps")
        elif self.fulfils_request():
            self._end(self._wish or "trainer.should_stop was set")
        elif self._ends < math.inf and self._clock.left(self._ends - time.perf_counter(), self._elapsed) <= 0:
            self._end(f"max_time={self._settings.max_time} reached", "max_time")
        elif most is not None and not position.micro and self._elapsed.elapsed(most.unit) >= most.amount:
            self._end(f"max_time={most} reached", "max_time")
        else:
            return False
        return True

    def ends_training(self) -> bool:
        """Return whether training ends before another epoch; notes why."""
        limits = self._limits
        if self.reason or self.ends_epoch():
            return True
        if limits.max_epochs is not None and 0 <= limits.max_epochs <= self._position.epoch:
            self._end(f"max_epochs={limits.max_epochs} reached", "max_epochs")
        elif limits.limit_train_batches == 0:
            self._end("limit_train_batches=0", "limit_train_batches")
        return bool(self.reason)

    def _leave(self, number: int) -> None:
        self.signal, self.leaving = number, True
        self.reason = f"signal {signal.Signals(number).name}"  # whatever limit was reached besides: it exits with it
        self._agenda.request_check()

    def _end(self, reason: str, limit: str = "") -> None:
        """Note why the run ends, and by which argument; the first reason counts."""
        if not self.reason:
            self.reason, self._limit = reason, limit
