"""A rank of a job that somebody else started (torchrun, SLURM, MPI, Kubernetes, Ray): it watches itself.

No process there is the parent of all ranks, and none could look after a thousand. So each rank has a thread that looks
at this rank alone, says when it is stuck in a step, and ends it at the step deadline; the scheduler then treats it as a
failed rank. The job's store holds how far each rank is, and why it failed. A rank whose connection broke looks there
for the cause, and raises that.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

from torch.distributed.distributed_c10d import Store

from lt_core.launcher import RunResult
from lt_core.ranks import Ranks
from lt_strategies import group
from lt_strategies.job import RankClient, calls_in, is_agreed, made_folder
from lt_strategies.rendezvous import NAMED, missing
from lt_strategies.watch import flight, page
from lt_strategies.watch.watch import Verdict, Watch, report

_PATIENCE = 5.0
"""Seconds in which a cause is waited for when a connection broke; within them each rank that lives has been seen."""

_GRACE = 5.0
"""Seconds that a rank has to notice by itself that another one failed."""

_LINGER = 20.0
"""Seconds that the rank that holds the store stays at most for the others to read why it failed."""


class SelfWatch(RankClient):
    """The client and the watcher of one rank, for one run and those in its hooks.

    Args:
        strategy: says who this process is, and its ``step_deadline``.
    """

    around: ClassVar[SelfWatch | None] = None
    """The watch of the run that this process is in. It takes the runs in its hooks too: their batches are its signs of
    life, and a watch of their own would take the handler of the signal along that asks this one for its stack."""

    _lost = 0  # ranks that are gone

    def __init__(self, strategy: Ranks) -> None:
        self._done = threading.Event()
        super().__init__(made_folder(strategy.world_size), strategy.rank, strategy.world_size)
        deadline = getattr(strategy, "step_deadline", 600.0)
        self._pause = max(1.0, self.world_size / 256)
        me: Any = SimpleNamespace(status=lambda: None, send=partial(os.kill, os.getpid()))
        self._watch = Watch(self.folder, {self.rank: me}, self.world_size, deadline, pause=self._pause)
        self._thread = threading.Thread(target=self._look, name="lt-self-watch", daemon=True)

    def run(self, fn: Callable[..., RunResult], args: tuple[Any, ...], strategy: Ranks) -> RunResult:
        if SelfWatch.around is self:
            return super().run(fn, args, strategy)
        SelfWatch.around = self
        self._thread.start()
        try:
            return super().run(fn, args, strategy)
        except BaseException as error:
            if not (self.is_fork or is_agreed(error)):
                self._linger()
            raise
        finally:
            SelfWatch.around = None
            if not self.is_fork:
                self._end_watch()

    def _end_watch(self) -> None:
        self._done.set()
        self._thread.join()
        if self._dump and page.DUMP_SIGNAL:
            faulthandler.unregister(page.DUMP_SIGNAL)
            self._dump.close()
        flight.hush(self.folder, self.rank)
        shutil.rmtree(self.folder, ignore_errors=True)

    def report(self, error: BaseException) -> dict[str, Any]:
        first = page.read_report(self.folder, self.rank) is None
        found = super().report(error)
        if first:
            self._post(found)
        return found

    def wait_for_verdict(self, seconds: float) -> Verdict | None:
        """Return why another rank failed, or which one is gone without a word; waits for it to be known."""
        # torchrun, srun and mpirun send it as soon as a rank is gone, and the others are to say which
        with self.handling(["SIGTERM"], signal.SIG_IGN):
            return self._verdict()

    def _verdict(self) -> Verdict | None:
        store = group.last_store()
        end, before = time.monotonic() + max(_PATIENCE, self.world_size / 64), dict[int, bytes]()
        try:
            while store is not None:
                told = self._reports(store)
                if causes := [found for found in told if not found["consequence"]]:
                    first = min(causes, key=lambda found: found["time"])
                    head = f"Rank {first['rank']} of {self.world_size} failed {first['place']}: {first['error']}"
                    calls = flight.differences({self.rank: flight.recorded(), **calls_in([first])})
                    return Verdict(first["rank"], f"{head}\n\n{first['traceback']}\n\n{calls}".rstrip())
                silent = sorted(set(range(self.world_size)) - {found["rank"] for found in told})
                if not silent:
                    return None  # all see a broken connection, and none is its cause
                before = before or {rank: _line(store, rank) for rank in silent[:NAMED]}
                if time.monotonic() > end:
                    return self._gone([(rank, line) for rank, line in before.items() if _line(store, rank) == line])
                time.sleep(max(0.1, self.world_size / 500))
        except (RuntimeError, OSError):
            text = f"Rank 0 of {self.world_size} or its node is gone: the job's store, which is there, does not answer."
            return Verdict(0, text)
        return None

    def _gone(self, lines: list[tuple[int, bytes]]) -> Verdict | None:
        if not lines:
            return None
        self._lost = len(lines)
        (rank, line), *others = lines
        also = f" So are ranks {', '.join(str(other) for other, _ in others)}." if others else ""
        where = line.decode().partition(" ")[2] or "when the ranks met"
        text = (
            f"Rank {rank} of {self.world_size} is gone without a word, last heard of {where}, up to {self._pause:g} s "
            f"before (this rank is {self._line.place}): killed, perhaps "
        )
        return Verdict(rank, f"{text}(out of memory, or a job limit), or its node is lost.{also}")

    def _reports(self, store: Store) -> list[dict[str, Any]]:
        ranks = range(self.world_size)
        spoke = [f"failed/{rank}" for rank in {*ranks} - {*missing(store, "failed", ranks)}]
        return [json.loads(found) for found in store.multi_get(spoke)] if spoke else []

    def _calls_of_all(self) -> dict[int, list[flight.Call]]:
        with contextlib.suppress(RuntimeError, OSError):
            if (store := group.last_store()) is not None:
                return calls_in(self._reports(store))
        return {}

    def _post(self, found: dict[str, Any]) -> None:
        with contextlib.suppress(RuntimeError, OSError):  # the rank that held the store may have failed
            if (store := group.last_store()) is not None:
                store.set(f"failed/{self.rank}", json.dumps(found))
                if not found["consequence"]:
                    store.set("cause", str(self.rank))

    def _linger(self) -> None:
        """Let the others read why this rank failed, before the store goes with the rank that holds it."""
        with contextlib.suppress(RuntimeError, OSError):
            if (store := group.last_store()) is None:
                return
            end, heard = time.monotonic() + _LINGER, store.add("heard", 1)
            holds = self.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
            while holds and heard < self.world_size - self._lost and time.monotonic() < end:
                time.sleep(0.1)
                heard = store.add("heard", 0)

    def _look(self) -> None:
        """Say in the store how far this rank is, and end it where it hangs, or waits for one that has failed."""
        late = 0.0
        while not self._done.wait(self._pause):
            with contextlib.suppress(RuntimeError, OSError):
                if (store := group.last_store()) is not None:
                    store.set(f"line/{self.rank}", f"{time.monotonic()} {self._line.place}")
                    late += self._pause * store.check(["cause"])
                    # gloo's connections last as long as that one's process, so this one waits
                    waits = late > _GRACE and page.read_report(self.folder, self.rank) is None
                    if waits and (cause := self.wait_for_verdict(_PATIENCE)) is not None:
                        report(cause.text)
                        self._exit()
            verdict = self._watch.look()
            if verdict is not None and verdict.hangs:
                self._end(verdict)

    def _end(self, verdict: Verdict) -> None:
        report(verdict.text)
        self._post(
            {
                "rank": self.rank,
                "time": time.time(),
                "place": self._line.place,
                "error": "it hangs",
                "traceback": verdict.text,
                "consequence": False,
                "calls": flight.recorded(),
            }
        )
        self._exit()

    def _exit(self) -> None:
        self._linger()
        shutil.rmtree(self.folder, ignore_errors=True)
        sys.stdout.flush()
        os._exit(1)  # nothing else ends a main thread that hangs in a system call


def _line(store: Store, rank: int) -> bytes:
    key = f"line/{rank}"
    return store.get(key) if store.check([key]) else b""
