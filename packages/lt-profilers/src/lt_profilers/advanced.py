"""Measures every Python function of a run."""

from __future__ import annotations

import cProfile
import io
import os
import pstats

from lt_core.checkpoint import local_folder
from lt_core.rank import process_rank
from lt_profilers.simple import SimpleProfiler

__all__ = ["AdvancedProfiler"]


class AdvancedProfiler(SimpleProfiler):
    """The simple profiler, and Python's cProfile over the whole run.

    Args:
        dirpath: folder of the report; None: the run's log folder, where a ``filename`` is given.
        filename: name of the report without ending, one for each rank; None: rank 0 prints it.
        line_count_restriction: how many functions are shown: a number, or a share (a float below 1.0).
        dump_stats: also write ``.prof`` beside the report, for snakeviz and similar viewers.
    """

    def __init__(
        self,
        dirpath: str | os.PathLike[str] | None = None,
        filename: str | None = None,
        line_count_restriction: float = 40,
        dump_stats: bool = False,
    ) -> None:
        super().__init__(dirpath, filename)
        self.line_count_restriction = line_count_restriction
        self.dump_stats = dump_stats
        self._lt_profile: cProfile.Profile | None = None
        self._lt_functions = ""

    def start(self, stage: str, log_dir: str | None) -> None:
        super().start(stage, log_dir)
        self._lt_profile = cProfile.Profile()
        self._lt_profile.enable()

    def stop(self) -> None:
        if self._lt_profile is None:
            return
        self._lt_profile.disable()
        text = io.StringIO()
        restriction = self.line_count_restriction
        pstats.Stats(self._lt_profile, stream=text).strip_dirs().sort_stats("cumulative").print_stats(restriction)
        self._lt_functions = text.getvalue().rstrip()
        if self.dump_stats:
            with local_folder(self.dirpath or self._lt_log_dir or ".") as folder:
                self._lt_profile.dump_stats(folder / f"{self.stage}-{self.filename or 'profile'}-{process_rank()}.prof")
        self._lt_profile = None
        super().stop()

    def summary(self) -> str:
        return f"{super().summary()}\n{self._lt_functions}".rstrip()
