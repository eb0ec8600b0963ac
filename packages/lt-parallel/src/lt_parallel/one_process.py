"""Runs of one process in a job of several: rank 0's, whose outcome the other ranks take over."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_map_only

from lt_core.errors import RankError
from lt_core.launcher import Launcher, RunResult
from lt_core.ranks import Ranks, Supervisor
from lt_core.seed import capture_generators, restore_generators
from lt_core.strategy import SingleDevice, Strategy

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name))
_POLL = 0.1
"""Seconds between two looks for an outcome."""


class Rank(Protocol):
    """A rank of a job that lt has started.

    Attributes:
        folder: the job's, which this user alone can read.
        rank: of this process.
        world_size: ranks of the job.
    """

    folder: Path
    rank: int
    world_size: int

    def line(self, rank: int) -> Any:
        """Return the state of a rank: its script is over where ``ended`` is True."""

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], strategy: Ranks) -> Any:
        """Call ``fn(*args)``; should this process die in it, or another one, the whole job ends."""

    def give_sign(self) -> None:
        """Have the others wait for this rank from now on as long again, where they meet."""


class _Signs(Supervisor):
    """Gives a sign for each batch: a rank that stands still is waited for no longer than others."""

    def __init__(self, mine: Rank) -> None:
        self._mine = mine

    def batch_done(self, phase: str) -> None:
        self._mine.give_sign()

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross to no other process, with a strategy that is pickled in a run."""
        return Supervisor, ()


class Outcome(NamedTuple):
    """The end of a run on rank 0: a RunResult or an exception, and the random generators before and after it."""

    value: Any
    before: dict[str, Any]
    after: dict[str, Any]


class OneProcess(Launcher):
    """Runs on rank 0, while the other ranks wait for the outcome, without a deadline: ``Trainer(devices=1)`` in a
    script that trains on several.

    Before the ranks have met each runs alone: rank 0 did before it started the others, whose scripts come to the same
    place by the same run. They take rank 0's decisions in place of their own, which name its folders and files, and
    write none. A call is known by its place in the script, so that rank 0 may make some alone.
    """

    name = "one_process"

    def __init__(self, mine: Rank) -> None:
        self._mine, self._calls = mine, Counter[str]()
        self._decisions, self._threads = mine.folder / "decisions", 0
        if mine.rank == 0:
            self._decisions.write_bytes(_pickled(torch.get_num_threads(), SingleDevice.said))

    def launch(self, fn: Callable[..., RunResult], *args: Any, strategy: Any) -> RunResult:
        if not dist.is_initialized():
            return self._run_alone(fn, args, strategy)
        act = self._lead if self._mine.rank == 0 else self._follow
        value = self._mine.run(act, (self._name(), fn, args, strategy), copy(strategy))
        if isinstance(value, BaseException):
            raise value
        result: RunResult = value
        return result

    def _run_alone(self, fn: Callable[..., RunResult], args: tuple[Any, ...], strategy: Strategy) -> RunResult:
        """Call ``fn(*args)`` as rank 0 did, and with its number of threads, on which the rounding of sums depends."""
        usual = torch.get_num_threads()
        if self._mine.rank and not self._threads:
            self._threads, SingleDevice.said = pickle.loads(self._decisions.read_bytes())
        torch.set_num_threads(self._threads or usual)
        before, strategy.supervisor = strategy.supervisor, _Signs(self._mine)
        self._mine.give_sign()
        try:
            return fn(*args)
        finally:
            self._mine.give_sign()
            strategy.supervisor = before
            torch.set_num_threads(usual)

    def _name(self) -> str:
        """Return the name of this call, which is the same on all ranks."""
        lines = [(Path(frame.f_code.co_filename).name, line) for frame, line in traceback.walk_stack(None)]
        place = hashlib.blake2b(repr(lines).encode(), digest_size=8).hexdigest()
        self._calls[place] += 1
        return f"{place}-{self._calls[place]}"

    def _path(self, name: str, rank: int) -> Path:
        """Return the file with the outcome for a rank, which deletes it."""
        return self._mine.folder / f"{name}.{rank}"

    def _lead(self, name: str, fn: Callable[..., RunResult], args: tuple[Any, ...], strategy: Strategy) -> Any:
        usual, before = strategy.capabilities, capture_generators()
        strategy.capabilities = replace(usual, returns_results=True)
        value: Any
        try:
            value = fn(*args)
        except BaseException as error:
            value = error
        finally:
            strategy.capabilities = usual
        draft, outcome = self._path(name, 0), Outcome(value, before, capture_generators())
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
        for rank in range(1, self._mine.world_size):
            os.link(draft, self._path(name, rank))
        draft.unlink()
        return value

    def _follow(self, name: str, fn: Callable[..., RunResult], args: tuple[Any, ...], strategy: Strategy) -> Any:
        path, before = self._path(name, self._mine.rank), capture_generators()
        with _ignoring(_SIGNALS):  # rank 0 heeds them; the outcome says so
            while not path.exists():
                if self._mine.line(0).ended and not path.exists():
                    return RankError(
                        f"Rank {self._mine.rank} waits for a run of rank 0 on one device, and rank 0's script is over. "
                        "All ranks must make the same calls of the Trainer; rank 0 alone may make more.",
                        code="LT769",
                    )
                time.sleep(_POLL)
            outcome: Outcome = torch.load(path, map_location="cpu", weights_only=False)
        path.unlink()
        if _numbers(before) == _numbers(outcome.before):  # else ranks draw differently, and go on to
            restore_generators(outcome.after)
        strategy.capabilities = replace(strategy.capabilities, returns_results=True)
        return outcome.value


def _pickled(threads: int, said: dict[str, list[Any]]) -> bytes:
    """Return both as bytes; without decisions if a user's own broadcasts cannot be pickled."""
    try:
        return pickle.dumps((threads, said))
    except Exception:
        return pickle.dumps((threads, defaultdict[str, list[Any]](list)))


def _numbers(generators: dict[str, Any]) -> Any:
    return tree_map_only(torch.Tensor, torch.Tensor.tolist, generators)


def _save(path: Path, outcome: Outcome) -> None:
    with path.open("wb") as file:
        torch.save(outcome, file, pickle_protocol=pickle.HIGHEST_PROTOCOL)


@contextmanager
def _ignoring(signals: tuple[int, ...]) -> Iterator[None]:
    main = threading.current_thread() is threading.main_thread()  # no other may set them
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals if main}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
