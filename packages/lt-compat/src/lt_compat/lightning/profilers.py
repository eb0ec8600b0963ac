"""Profilers as Lightning has them: they are called by the name of an action, and users subclass them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from lt_core.profiler import Profiler as Measures

__all__ = ["PassThroughProfiler", "Profiler", "SimpleProfiler"]


class _Kind(type(Measures)):  # type: ignore[misc]
    """Makes lt's own profilers objects of Lightning's base class."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Measures) if cls is Profiler else super().__instancecheck__(value)


class Profiler(Measures, metaclass=_Kind):
    """A profiler whose ``start`` and ``stop`` get an action's name; the Trainer calls them around each action.

    Args:
        dirpath: folder of the report; None: the run's.
        filename: name of the report without ending; None: it is printed.
    """

    def __init__(self, dirpath: str | os.PathLike[str] | None = None, filename: str | None = None) -> None:
        self.dirpath, self.filename = dirpath, filename
        self._stage: str | None = None
        self._local_rank: int | None = None

    def setup(self, stage: str, local_rank: int | None = None, log_dir: str | None = None) -> None:
        """A run begins."""
        self._stage, self._local_rank, self.dirpath = stage, local_rank, self.dirpath or log_dir

    def teardown(self, stage: str | None) -> None:
        """A run has ended."""

    def start(self, action_name: str) -> None:  # type: ignore[override]  # of Lightning; by_action calls it
        """An action begins."""

    def stop(self, action_name: str) -> None:  # type: ignore[override]
        """It has ended."""

    @contextmanager
    def profile(self, action_name: str) -> Iterator[str]:
        """Return a context that is an action."""
        try:
            self.start(action_name)
            yield action_name
        finally:
            self.stop(action_name)

    def describe(self) -> None:
        """Write the report to its file, or print it on one rank of each node."""
        text = self.summary()
        if not text:
            return
        if self.filename and self.dirpath:
            parts = (self._stage, self.filename, self._local_rank)
            folder = Path(self.dirpath)
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / f"{'-'.join(str(part) for part in parts if part is not None)}.txt").open("a") as file:
                file.write(text)
        elif not self._local_rank:
            print(text)


class PassThroughProfiler(Profiler):
    """Measures nothing."""


class SimpleProfiler(Profiler):
    """Keeps the seconds of each action.

    Args:
        dirpath: as the base's.
        filename: as the base's.
        extended: False leaves the number of calls and the share out of the report.
    """

    def __init__(
        self, dirpath: str | os.PathLike[str] | None = None, filename: str | None = None, extended: bool = True
    ) -> None:
        super().__init__(dirpath, filename)
        self.current_actions: dict[str, float] = {}
        self.recorded_durations: dict[str, list[float]] = defaultdict(list)
        self.extended = extended
        self.start_time = perf_counter()

    def start(self, action_name: str) -> None:  # type: ignore[override]
        """An action begins.

        Raises:
            ValueError: where it has begun already.
        """
        if action_name in self.current_actions:
            raise ValueError(f"Attempted to start {action_name} which has already started.")
        self.current_actions[action_name] = perf_counter()

    def stop(self, action_name: str) -> None:  # type: ignore[override]
        """An action has ended.

        Raises:
            ValueError: where it has not begun.
        """
        if action_name not in self.current_actions:
            raise ValueError(f"Attempting to stop recording an action ({action_name}) which was never started.")
        self.recorded_durations[action_name].append(perf_counter() - self.current_actions.pop(action_name))

    def summary(self) -> str:
        """Return a table of the actions, those that took most first."""
        whole = perf_counter() - self.start_time
        totals = sorted(
            ((sum(times), len(times), name) for name, times in self.recorded_durations.items()), reverse=True
        )
        rows = [("Action", "Mean duration (s)", "Num calls", "Total time (s)", "Percentage %")]
        rows.append(("Total", "-", str(sum(calls for _, calls, _ in totals)), f"{whole:.5}", "100 %"))
        rows += [
            (name, f"{total / calls:.5}", str(calls), f"{total:.5}", f"{100 * total / whole:.5}")
            for total, calls, name in totals
        ]
        shown = rows if self.extended else [(name, mean, total) for name, mean, _, total, _ in rows]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = [
            "|  " + "  |  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + "  |" for row in shown
        ]
        rule = "-" * len(lines[0])
        title = f"{self._stage.upper()} Profiler Report" if self._stage else "Profiler Report"
        return "\n".join([title, "", rule, lines[0], rule, lines[1], rule, *lines[2:], rule, ""])
