"""A rank of a job that lt launched, as its watcher's client: it reports its progress and its failure."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from lt_core import plugins
from lt_core.errors import LtError, RankError
from lt_core.launcher import Launcher, RunResult
from lt_core.ranks import Ranks, Supervisor
from lt_core.states import Stage
from lt_core.strategy import SingleDevice
from lt_strategies.watch import flight, page, stacks
from lt_strategies.watch.page import Line
from lt_strategies.watch.watch import PATIENCE, Verdict


def rank_client() -> RankClient | None:
    """Return this process's client, or None where lt has launched nothing (yet)."""
    if SingleDevice.launcher is None and _started_by_watcher():
        mine = RankClient(os.environ["LT_JOB"], int(os.environ["LT_RANK"]), int(os.environ["LT_WORLD_SIZE"])).take()
        sys.excepthook = mine.quiet_excepthook
    return SingleDevice.launcher  # type: ignore[return-value]


def made_folder(world_size: int) -> str:
    """Make the folder of a new job of ``world_size`` ranks, readable by this user only; return its path."""
    folder = tempfile.mkdtemp(prefix="lt-job-")
    page.Page(Path(folder) / "page", world_size)
    return folder


def _started_by_watcher() -> bool:
    """Return whether the watcher itself started this process; processes that the user starts inherit the variables."""
    mine = os.environ.get("LT_WATCHER") == str(os.getppid()) or (os.name == "nt" and "LT_WATCHER" in os.environ)
    return mine and "LT_JOB" in os.environ


class RankClient(Supervisor, Launcher):
    """One rank of a job, as it reports to the watcher; the launcher of its runs on one device.

    Args:
        folder: the job's folder.
        rank: this process.
        world_size: ranks in the job, all on this machine.

    Attributes:
        heard: whether the watcher's verdict was raised here.
        meetings: runs of all ranks that are over.
        one_process: has runs on one device follow those of rank 0; None: each is of this process alone.
    """

    one_process: Any = None
    meetings = 0

    def __init__(self, folder: str, rank: int, world_size: int) -> None:
        self.folder, self.rank, self.world_size, self.heard = Path(folder), rank, world_size, False
        self._page = page.Page(self.folder / "page")
        self._line = Line(os.getpid(), time.monotonic(), page.STARTING, thread=threading.main_thread().ident or 0)
        self._dump = None
        if page.DUMP_SIGNAL is not None:
            self._dump = (self.folder / f"stack_{rank}.txt").open("w")
            # answers in C, also where this rank hangs in a collective and runs no Python
            faulthandler.register(page.DUMP_SIGNAL, self._dump, all_threads=True)
        # Python sets handlers in the main thread alone; a rank in an actor's thread goes without
        if page.RAISE_SIGNAL is not None and threading.current_thread() is threading.main_thread():
            signal.signal(page.RAISE_SIGNAL, self._on_verdict)
        self._page.write(rank, self._line)
        if world_size > 1:
            flight.listen(self.folder, rank)

    def take(self) -> Self:
        """Make this the client of this process, for launchers whose processes get no variables."""
        SingleDevice.launcher = self
        if one_process := plugins.find("defaults", "one_process"):
            self.one_process = one_process(self)
            self.launch = self.one_process.launch  # type: ignore[method-assign]
        return self

    @property
    def is_fork(self) -> bool:
        """Whether this process is one that the rank has forked, whose end is none of the rank's."""
        return os.getpid() != self._line.pid

    def line(self, rank: int) -> Line:
        """Return a rank's line of the page."""
        return self._page.read(rank)

    def leave(self) -> None:
        """Say that this rank has ended for good."""
        self._mark(page.ENDED)

    def run(self, fn: Callable[..., RunResult], args: tuple[Any, ...], strategy: Ranks) -> RunResult:
        """Call ``fn(*args)`` under the watcher's eyes.

        Raises:
            RankError: when another rank failed first; names it and its error.
        """
        before = self._line
        self._line = before._replace(
            batches=0,
            phase="",
            on_device=strategy.device.type != "cpu",
            thread=threading.get_ident(),  # an actor's is not the process's first
            first=True,
        )
        self._mark(page.RUNNING)
        try:
            strategy.supervisor = self
            result = fn(*args)
        except BaseException as error:
            if not self.is_fork:
                self._raise_cause(error)
            raise
        finally:
            del strategy.supervisor
        self.meetings += strategy.world_size > 1
        self._line = before
        self._mark(max(before.state, page.IDLE))  # the state of a run around this one, which is in a hook of it
        return result

    def give_sign(self) -> None:
        """Say that this rank is alive: the others wait for it to come to their meeting as long from now on."""
        self._mark(self._line.state)

    def ready(self) -> None:
        self._mark(page.STEPPING)

    def batch_done(self, phase: str) -> None:
        before = self._line
        batches = before.batches + 1 if phase == before.phase else 1
        first = before.first and phase == Stage.VALIDATE  # a sanity check says nothing of the first training step
        self._line = Line(
            before.pid, time.monotonic(), page.STEPPING, batches, phase, before.thread, before.on_device, first
        )
        self._page.write(self.rank, self._line)

    def failed(self, error: BaseException) -> None:
        if not is_agreed(error):
            self.report(error)

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross to no other process, with a strategy that is pickled in a run."""
        return Supervisor, ()

    def report(self, error: BaseException) -> dict[str, Any]:
        """Leave the watcher a report of this rank's failure, once; return it."""
        found = page.read_report(self.folder, self.rank)
        if found is None:
            found = {
                "rank": self.rank,
                "time": time.time(),
                "place": place_of(self._line, error),
                "error": "".join(traceback.format_exception_only(error)).strip(),
                "traceback": user_traceback(error),
                "consequence": is_consequence(error),
                "interrupt": isinstance(error, KeyboardInterrupt),
                "calls": flight.recorded() if is_consequence(error) else [],
            }
            page.save_json(self.folder / f"report_{self.rank}.json", found)
        return found

    def quiet_excepthook(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        """Hand an uncaught error to the watcher, which prints one message for the whole job."""
        error.__traceback__ = trace
        if self.folder.exists() and not self.is_fork:
            self.report(error)
        else:
            sys.__excepthook__(kind, error, trace)

    def wait_for_verdict(self, seconds: float) -> Verdict | None:
        """Return the watcher's verdict, waiting at most ``seconds`` for it."""
        end = time.monotonic() + seconds
        while True:
            found = page.read_json(self.folder / "verdict.json")
            if found is not None:
                return Verdict(**found)
            if time.monotonic() > end:
                return None
            time.sleep(0.02)

    def _raise_cause(self, error: BaseException) -> None:
        """Raise the other rank's failure in place of a broken connection; otherwise report ``error``."""
        if is_agreed(error):
            self._mark(page.IDLE)
            return
        if isinstance(error, RankError) and self.heard:
            self._mark(page.IDLE)
            raise error.with_traceback(None) from None  # raised wherever this rank was, often deep in torch
        report = self.report(error)
        verdict = self.wait_for_verdict(PATIENCE + 1.5) if report["consequence"] else None
        self._mark(page.IDLE)
        if verdict is not None and verdict.rank != self.rank:
            self._hear()
            raise RankError(verdict.text, code="LT701") from None
        if report["consequence"] and (said := flight.differences(self._calls_of_all())):
            error.add_note(said)
        if str(error) not in report["error"]:
            error.add_note(
                f"lt: a run of this job failed before ({report['error']}), and its error was caught: its ranks cannot "
                "meet again. Let that error through."
            )
        if self.world_size > 1:
            error.add_note(f"(rank {self.rank} of {self.world_size}, {report['place']})")

    @staticmethod
    @contextmanager
    def handling(names: Iterable[str], handler: Any) -> Iterator[None]:
        """Handle signals otherwise for a while, those that there are, in the main thread: no other can."""
        main = threading.current_thread() is threading.main_thread()
        numbers = [getattr(signal, name) for name in names if main and hasattr(signal, name)]
        before = {number: signal.signal(number, handler) for number in numbers}
        try:
            yield
        finally:
            for number, usual in before.items():
                signal.signal(number, usual or signal.SIG_DFL)

    def _calls_of_all(self) -> dict[int, list[flight.Call]]:
        """Return the recorded calls of ranks whose connection broke, from their reports."""
        reports = [found for rank in range(self.world_size) if (found := page.read_report(self.folder, rank))]
        return calls_in(reports)

    def _on_verdict(self, _number: int, _frame: Any) -> None:
        verdict = self.wait_for_verdict(0.0)
        if verdict is not None and self._line.state in (page.RUNNING, page.STEPPING):
            self._hear()
            raise RankError(verdict.text, code="LT701")

    def _hear(self) -> None:
        """Take note that the verdict is raised here; where rank 0 says it, the watcher need not print it."""
        self.heard = True
        if self.rank == 0:
            (self.folder / "heard").touch()

    def _mark(self, state: int) -> None:
        self._line = self._line._replace(beat=time.monotonic(), state=state)
        self._page.write(self.rank, self._line)


def calls_in(reports: Iterable[dict[str, Any]]) -> dict[int, list[flight.Call]]:
    """Return the collectives in the reports of ranks, by rank."""
    return {found["rank"]: [flight.Call(*call) for call in found["calls"]] for found in reports if found.get("calls")}


def place_of(line: Line, error: BaseException) -> str:
    """Return where a rank failed, as text: its line knows the last batch done, the error the hook that was running."""
    names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
    phase = next(filter(None, map(_phase_of, names)), line.phase)
    if phase == line.phase or line.state not in (page.RUNNING, page.STEPPING):
        return line.place
    if phase == "train":
        return f"in its first train batch after {line.phase}" if line.phase else line.place
    return f"in its first {phase} batch"


def _phase_of(name: str) -> str:
    """Return the phase of a hook by its name, or nothing for another function."""
    for stage in Stage:
        if name == stage.step or name.startswith((f"on_{stage.hook}_batch", f"on_{stage.hook}_epoch")):
            return stage
    return ""


def is_agreed(error: BaseException) -> bool:
    """Return whether all ranks leave the run by this error together, and the job goes on."""
    return isinstance(error, LtError) and error.agreed


def is_consequence(error: BaseException) -> bool:
    """Return whether an error only says that another rank is gone."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, (RuntimeError, OSError)) and stacks.CONSEQUENCE.search(f"{type(seen).__name__}: {seen}"):
            return True
        seen = seen.__cause__
    return False


def user_traceback(error: BaseException) -> str:
    """Return the traceback without the frames of lt and torch, unless nothing else is in it."""
    whole = traceback.TracebackException.from_exception(error)
    kept = [frame for frame in whole.stack if not stacks.OURS.search(frame.filename)]
    if kept:
        whole.stack = traceback.StackSummary.from_list(kept)
    return "".join(whole.format()).rstrip()
