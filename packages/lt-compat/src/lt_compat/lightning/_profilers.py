"""Profilers as Lightning has them: they are called by the name of an action, and users subclass them."""

from __future__ import annotations

import cProfile
import io
import os
import pstats
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from lt_core.profiler import Profiler as Measures
from lt_core.terminal import say

__all__ = ["AdvancedProfiler", "PassThroughProfiler", "Profiler", "SimpleProfiler"]


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

    @property
    def local_rank(self) -> int:
        """The rank on this machine."""
        return self._local_rank or 0

    def _prepare_filename(self, action_name: str | None = None, extension: str = ".txt") -> str:
        parts = (self._stage, self.filename or None, self._local_rank, action_name)
        name = "-".join(str(part) for part in parts if part is not None)
        return (re.sub(r'[\\/:*?"<>|\n\r\t_]+', "_", name).strip() or "profile") + extension

    def _stats_to_str(self, stats: dict[str, str]) -> str:
        rank = "" if self._local_rank is None else f" rank: {self._local_rank}"
        parts = [f"Profile stats for: {action}{rank}{os.linesep}{text}" for action, text in stats.items()]
        return os.linesep.join([self._lt_title(), *parts])

    def _lt_title(self) -> str:
        return f"{self._stage.upper()} Profiler Report" if self._stage else "Profiler Report"

    def describe(self) -> None:
        """Write the report to its file, or print it on one rank of each node."""
        text = self.summary()
        if not text:
            return
        if self.filename and self.dirpath:
            folder = Path(self.dirpath)
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / self._prepare_filename()).open("a") as file:
                file.write(text)
        elif not self._local_rank:
            say(text)


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
        """Return a table of the actions, the longest first."""
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
        return "\n".join([self._lt_title(), "", rule, lines[0], rule, lines[1], rule, *lines[2:], rule, ""])


class AdvancedProfiler(Profiler):
    """Keeps the Python functions of each action, by cProfile; of actions in one another the inner one alone.

    Args:
        dirpath: as the base's.
        filename: as the base's.
        line_count_restriction: how many functions are shown of each action: a number, or a share (a float up to 1.0).
        dump_stats: also write each action's ``.prof`` to ``dirpath``.
    """

    def __init__(
        self,
        dirpath: str | os.PathLike[str] | None = None,
        filename: str | None = None,
        line_count_restriction: float = 1.0,
        dump_stats: bool = False,
    ) -> None:
        super().__init__(dirpath, filename)
        self.profiled_actions: dict[str, cProfile.Profile] = defaultdict(cProfile.Profile)
        self.line_count_restriction = line_count_restriction
        self.dump_stats = dump_stats

    def start(self, action_name: str) -> None:  # type: ignore[override]
        """An action begins."""
        for profile in self.profiled_actions.values():  # Python runs one at a time
            profile.disable()
        self.profiled_actions[action_name].enable()

    def stop(self, action_name: str) -> None:  # type: ignore[override]
        """An action has ended.

        Raises:
            ValueError: where it has never begun.
        """
        if action_name not in self.profiled_actions:
            raise ValueError(f"Attempting to stop recording an action ({action_name}) which was never started.")
        self.profiled_actions[action_name].disable()

    def summary(self) -> str:
        """Return each action's functions, the longest first."""
        stats = {}
        for name, profile in self.profiled_actions.items():
            if self.dump_stats:
                folder = Path(self.dirpath or ".")
                folder.mkdir(parents=True, exist_ok=True)
                profile.dump_stats(folder / self._prepare_filename(name, ".prof"))
            text = io.StringIO()
            shown = pstats.Stats(profile, stream=text).strip_dirs().sort_stats("cumulative")
            shown.print_stats(self.line_count_restriction)
            stats[name] = text.getvalue()
        return self._stats_to_str(stats)

    def teardown(self, stage: str | None) -> None:
        """A run has ended: forget its actions."""
        self.profiled_actions.clear()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.dirpath, self.filename, self.line_count_restriction, self.dump_stats)
