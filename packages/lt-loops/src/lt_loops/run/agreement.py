"""How several ranks agree on the step at which a signal stops them, without a sync of its own in any step."""

import secrets
import threading

from lt_core.errors import warn
from lt_core.strategy import Strategy
from lt_loops.run.agenda import Agenda

_LOOK_SECONDS = 0.25
"""Pause between two looks of the watcher thread, the shortest."""

_LOOKS = 256
"""Looks that all ranks together take in a second, at most: one rank's process answers them."""


class Agreement:
    """Brings a signal that any rank got to all ranks, and finds a batch at which all of them stop.

    A watcher thread posts this rank's signal to the strategy's side channel and looks for the others'; then it has
    the loop look up. From then on each rank posts, once, the batch at which it noticed. When all have posted, rank 0
    posts where all stop: at the largest + 2, or at the end of its accumulation window, whichever is later. Ranks in
    lock-step wait for each other at the end of each window, so none is past it: who has done that batch has had rank 0
    begin it, after a boundary at which it saw them all. Ranks without lock-step stop
    where they are.

    Attributes:
        proposed: the signal that this rank got, of which the others hear.
        signal: the one that all ranks obey, as soon as this rank knows of it.
    """

    def __init__(self, strategy: Strategy, agenda: Agenda) -> None:
        """Prepare for one run, whose name rank 0 makes up; every rank calls this."""
        self._strategy, self._agenda = strategy, agenda
        self._key = f"lt/stop/{strategy.broadcast(secrets.token_hex(8))}"
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lt-stop-watcher", daemon=True)
        self.proposed: int | None = None
        self._posted = False
        self._waited_for = list(range(strategy.world_size))
        self._latest = 0
        self._stop_at: int | None = None
        self.signal: int | None = None

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop looking; the thread has ended when this returns."""
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        try:
            self._look()
        except RuntimeError as error:  # torch's, where the process that holds the store is gone
            warn(
                f"The job's store does not answer any more ({str(error).splitlines()[0]:.200}), so ranks hear of no "
                "signal from each other: the rank or the agent that held it is gone. Start the job again.",
                code="LT596",
            )

    def _look(self) -> None:
        strategy = self._strategy
        announced = False
        while not self._done.wait(max(_LOOK_SECONDS, strategy.world_size / _LOOKS)):
            if self.proposed is not None and not announced:
                strategy.post(self._key, str(self.proposed))
                announced = True
            posted = strategy.peek(self._key)
            if posted is not None:
                self.signal = int(posted)
                self._agenda.request_check()
                return

    def reached(self, here: int) -> bool:
        """Return whether ``here``, the batches that this rank has done, is where all stop; at every boundary."""
        if self.signal is None:
            return False
        strategy = self._strategy
        if not self._posted:
            strategy.post(f"{self._key}/{strategy.rank}", str(here))
            self._posted = True
        if self._stop_at is None:
            self._stop_at = self._decided(here)
        if self._stop_at is not None and here >= self._stop_at:
            return True
        self._agenda.request_check()  # again after the next batch
        return False

    def _decided(self, here: int) -> int | None:
        """Return the batch at which all stop, as rank 0 has found it; None before that."""
        strategy, lock_step = self._strategy, self._strategy.capabilities.lock_step
        # without lock-step a rank may be past any common batch: that rank 0 has posted one says that all know
        if strategy.rank != 0:
            decided = strategy.peek(f"{self._key}/at")
            return None if decided is None else int(decided) if lock_step else here
        while self._waited_for:  # who has posted is not asked for again: each look is a message to the store
            place = strategy.peek(f"{self._key}/{self._waited_for[-1]}")
            if place is None:
                return None
            self._latest = max(self._latest, int(place))
            self._waited_for.pop()
        stop_at = max(self._latest + 2, here + self._agenda.window - self._agenda.position.micro)
        strategy.post(f"{self._key}/at", str(stop_at))
        return stop_at if lock_step else here
