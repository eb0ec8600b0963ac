"""Measures how long each step and hook takes."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from typing import Any

from lt_core.checkpoint import local_folder
from lt_core.profiler import Profiler
from lt_core.rank import process_rank
from lt_core.terminal import say
from lt_profilers.shares import Action, shares, table

__all__ = ["SimpleProfiler"]


class SimpleProfiler(Profiler):
    """Measures the seconds of each step and hook by the clock, and the shares of data, step, hooks and lt.

    A measured call costs about a microsecond. On a GPU these are the times in which the work was asked for; take the
    ``pytorch`` profiler for the device's own.

    Args:
        dirpath: folder of the report; None: the run's log folder, where a ``filename`` is given.
        filename: name of the report without ending, one for each rank; None: rank 0 prints it.
        extended: accepted as in Lightning; the report is always complete.
    """

    def __init__(
        self, dirpath: str | os.PathLike[str] | None = None, filename: str | None = None, extended: bool = True
    ) -> None:
        self.dirpath, self.filename = dirpath, filename
        self.actions: dict[str, Action] = {}
        self.stage = ""
        self.seconds = 0.0
        self._lt_began: float | None = None
        self._lt_inside = 0.0
        self._lt_start: float | None = None
        self._lt_log_dir: str | None = None

    def start(self, stage: str, log_dir: str | None) -> None:
        self.stage, self._lt_log_dir = stage, log_dir
        for action in self.actions.values():  # those wrapped already go on being measured
            action.reset()
        self.seconds, self._lt_inside, self._lt_start = 0.0, 0.0, None
        self._lt_began = perf_counter()

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        action = self.actions.setdefault(name, Action())
        if name == "get_batch":
            function = self._lt_first_noted(function)

        def measured(*args: Any, **kwargs: Any) -> Any:
            outer, self._lt_inside = self._lt_inside, 0.0
            began = perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                took = perf_counter() - began
                action.add(took, self._lt_inside)
                self._lt_inside = outer + took

        return functools.update_wrapper(measured, function) if hasattr(function, "__name__") else measured

    def profile(self, name: str) -> AbstractContextManager[Any]:
        return self._lt_measured(name)

    def stop(self) -> None:
        if self._lt_began is None:
            return
        self.seconds, self._lt_began = perf_counter() - self._lt_began, None
        self.write(self.summary())

    def summary(self) -> str:
        called = {name: action for name, action in self.actions.items() if action.calls}
        return table(self.stage or "nothing", called, self._lt_seconds_so_far(), self._lt_start or 0.0)

    def shares(self) -> dict[str, float]:
        """Return the fractions of the time: ``data``, ``step``, ``backward``, ``optimizer``, ``hooks``, ``lt``..."""
        return shares(self.actions, self._lt_seconds_so_far(), self._lt_start or 0.0)

    def write(self, text: str) -> None:
        """Put the report where it was asked for: a file of this rank, or stdout of rank 0."""
        rank = process_rank()
        if self.filename is not None or self.dirpath is not None:
            with local_folder(self.dirpath or self._lt_log_dir or ".") as folder:
                file = folder / f"{self.stage}-{self.filename or 'profile'}-{rank}.txt"
                file.write_text(text + "\n", encoding="utf-8")
        elif rank == 0:
            say(f"\n{text}")

    def _lt_first_noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``function``, which notes at its first call the time before any measurement."""

        def asked(*args: Any, **kwargs: Any) -> Any:
            if self._lt_start is None and self._lt_began is not None:
                self._lt_start = perf_counter() - self._lt_began - sum(action.own for action in self.actions.values())
            return function(*args, **kwargs)

        return asked

    def _lt_seconds_so_far(self) -> float:
        return self.seconds if self._lt_began is None else perf_counter() - self._lt_began

    @contextmanager
    def _lt_measured(self, name: str) -> Iterator[None]:
        action = self.actions.setdefault(name, Action())
        outer, self._lt_inside = self._lt_inside, 0.0
        began = perf_counter()
        try:
            yield
        finally:
            took = perf_counter() - began
            action.add(took, self._lt_inside)
            self._lt_inside = outer + took
