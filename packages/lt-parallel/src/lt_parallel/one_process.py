"""Runs of one process in a job of several: rank 0's, whose outcome the other ranks take over."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from pathlib import Path
from traceback import walk_stack
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_map_only

from lt_core.errors import RankError, warn
from lt_core.launcher import Launcher, RunResult
from lt_core.ranks import Ranks, Supervisor
from lt_core.seed import capture_generators, restore_generators
from lt_core.strategy import Strategy
from lt_parallel.decisions import DECISIONS

_SIGNALS = "SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"
_POLL = 0.1
"""Seconds between two looks for an outcome."""


class Rank(Protocol):
    """A rank of a job that lt has started.

    Attributes:
        folder: the job's, which this user alone can read.
        rank: of this process.
        world_size: ranks of the job.
        meetings: runs of all ranks that are over.
    """

    folder: Path
    rank: int
    world_size: int
    meetings: int

    def line(self, rank: int) -> Any:
        """Return the state of a rank: its script is over where ``ended`` is True."""

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], strategy: Ranks) -> Any:
        """Call ``fn(*args)``; should this process die in it, or another one, the whole job ends."""

    def give_sign(self) -> None:
        """Have the others wait for this rank from now on as long again, where they meet."""

    def handling(self, names: Iterable[str], handler: Any) -> AbstractContextManager[None]:
        """Handle signals otherwise for a while."""


class _Signs(Supervisor):
    """Gives a sign where the setup is done and for each batch: a rank that stands still is waited for no longer."""

    def __init__(self, mine: Rank) -> None:
        self._mine = mine

    def ready(self) -> None:
        self._mine.give_sign()

    def batch_done(self, phase: str) -> None:
        self._mine.give_sign()

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross to no other process, with a strategy that is pickled in a run."""
        return Supervisor, ()


class Outcome(NamedTuple):
    """The end of a run on rank 0.

    Attributes:
        value: a RunResult or an exception.
        asked: the method, its module's class and its checkpoint.
        before, after: the random generators.
    """

    value: Any
    asked: str
    before: dict[str, Any]
    after: dict[str, Any]


class OneProcess(Launcher):
    """Runs on rank 0, while the other ranks wait for the outcome, without a deadline: ``Trainer(devices=1)`` in a
    script that trains on several.

    Before the ranks have met each runs alone: rank 0 did before it started the others, whose scripts come to the same
    place by the same run. They take rank 0's decisions in place of their own, which name its folders and files, and
    write none. A call is known by its place in the script, its number there since the last run of all ranks, and what
    it asks for, so that rank 0 may make some alone.
    """

    name = "one_process"

    def __init__(self, mine: Rank) -> None:
        self._mine, self._calls, self._meetings = mine, Counter[str](), 0
        self._decisions, self._threads = mine.folder / "decisions", 0
        if mine.rank == 0:
            self._decisions.write_bytes(_pickled(torch.get_num_threads(), DECISIONS))

    def launch(self, fn: Callable[..., RunResult], *args: Any, strategy: Any) -> RunResult:
        if self._meetings != self._mine.meetings:
            self.settle()
        if dist.is_initialized():
            act = self._lead if self._mine.rank == 0 else self._follow
            value = self._mine.run(act, (_place(), fn, args, strategy), copy(strategy))
            if isinstance(value, BaseException):
                raise value
            result: RunResult = value
            return result
        usual = torch.get_num_threads()  # on their number the rounding of sums depends
        if self._mine.rank and not self._threads:
            self._threads, found = pickle.loads(self._decisions.read_bytes())
            DECISIONS.clear()
            DECISIONS.update(found)
        torch.set_num_threads(self._threads or usual)
        before, strategy.supervisor = strategy.supervisor, _Signs(self._mine)
        self._mine.give_sign()
        try:
            return fn(*args)
        finally:
            self._mine.give_sign()
            strategy.supervisor = before
            torch.set_num_threads(usual)

    def settle(self) -> None:
        """Begin to count calls anew, as the ranks have met.

        No rank comes back to a call before that, so what it has not taken by then goes. Where it has made some of rank
        0's calls a warning says so.
        """
        for place, count in self._calls.items() if self._mine.rank == 0 else ():
            for rank in range(1, self._mine.world_size):
                paths = [self._path(place, number, rank) for number in range(1, count + 1)]
                left = [path for path in paths if path.exists()]
                for path in left:
                    path.unlink()
                if 0 < len(left) < count:
                    warn(
                        f"Rank {rank} has made {count - len(left)} of the {count} calls on one device that rank 0 has "
                        f"made in {place.partition('-')[0]}, and may have taken the outcome of another one. Have all "
                        "ranks make each call of a line, or rank 0 alone: if trainer.is_global_zero.",
                        code="LT776",
                    )
        self._calls.clear()
        self._meetings = self._mine.meetings

    def _path(self, place: str, number: int, rank: int) -> Path:
        """Return the file with the outcome of a call for a rank, which deletes it."""
        return self._mine.folder / f"{place}-{self._meetings}-{number}.{rank}"

    def _lead(self, place: str, fn: Callable[..., RunResult], args: tuple[Any, ...], strategy: Strategy) -> Any:
        usual, before = strategy.capabilities, capture_generators()
        strategy.capabilities = replace(usual, returns_results=True)
        value: Any
        try:
            value = fn(*args)
        except BaseException as error:
            value = error
        finally:
            strategy.capabilities = usual
        self._calls[place] += 1
        draft, *paths = (self._path(place, self._calls[place], rank) for rank in range(self._mine.world_size))
        outcome = Outcome(value, _asked(fn, args), before, capture_generators())
        try:
            if isinstance(value, BaseException):
                pickle.loads(pickle.dumps(value))
            _save(draft, outcome)
        except Exception as error:  # rank 0 goes on, and so do the others if they do not need it
            ended = f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else "a result"
            told = RankError(
                f"Rank 0 ended a run on one device with {ended}. The other ranks, which wait for it, cannot have that "
                f"as it is: {error} Define classes at the top level of a file, and have outputs be plain data and "
                "tensors; or let rank 0 alone make the call: if trainer.is_global_zero.",
                code="LT768",
            )
            _save(draft, outcome._replace(value=told))
        for path in paths:
            os.link(draft, path)
        draft.unlink()
        return value

    def _follow(self, place: str, fn: Callable[..., RunResult], args: tuple[Any, ...], strategy: Strategy) -> Any:
        before, asked, made = capture_generators(), _asked(fn, args), [""]
        outcome: Outcome
        with self._mine.handling(_SIGNALS, signal.SIG_IGN):  # rank 0 heeds them; the outcome says so
            while made[-1] != asked:  # rank 0 has made others alone
                self._calls[place] += 1
                path = self._path(place, self._calls[place], self._mine.rank)
                while not (path.exists() or self._mine.line(0).ended):
                    time.sleep(_POLL)
                try:
                    outcome = torch.load(path, map_location="cpu", weights_only=False)
                except FileNotFoundError:
                    return RankError(
                        f"Rank {self._mine.rank} waits for a run of rank 0 on one device ({asked}), and rank 0's "
                        f"script is over{'; in this line it made '.join(made)}. All ranks must make the same calls of "
                        "the Trainer; rank 0 alone may make more.",
                        code="LT769",
                    )
                path.unlink()
                made.append(outcome.asked)
        if _numbers(before) == _numbers(outcome.before):  # else ranks draw differently, and go on to
            restore_generators(outcome.after)
        return outcome.value


def _place() -> str:
    """Return the place of a call in the script: its file and line, and a number for the lines that led there."""
    frames = list(walk_stack(sys._getframe(1)))
    own = (f"{Path(f.f_code.co_filename).name}:{n}" for f, n in frames if "lt_" not in f.f_globals.get("__name__", ""))
    return f"{next(own, 'lt')}-{hash(tuple(line for _, line in frames)):x}"


def _asked(fn: Callable[..., RunResult], args: tuple[Any, ...]) -> str:
    """Return what a call asks for, without what ranks may have otherwise: weights without a seed, a folder's name."""
    job = getattr(args[0], "job", None) if args else None
    if job is None:
        return fn.__name__
    start = job.word or Path(job.ckpt_path or "").name
    return f"{job.stage} of {type(job.given).__name__}{' from ' * bool(start)}{start}"


def _pickled(threads: int, decisions: dict[Any, list[Any]]) -> bytes:
    """Return both as bytes; without decisions if a user's own broadcasts cannot be pickled."""
    try:
        return pickle.dumps((threads, decisions))
    except Exception:
        return pickle.dumps((threads, {}))


def _numbers(generators: dict[str, Any]) -> Any:
    return tree_map_only(torch.Tensor, torch.Tensor.tolist, generators)


def _save(path: Path, outcome: Outcome) -> None:
    with path.open("wb") as file:
        torch.save(outcome, file, pickle_protocol=pickle.HIGHEST_PROTOCOL)
