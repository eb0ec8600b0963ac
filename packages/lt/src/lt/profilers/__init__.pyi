# Written by tools/stubs.py from the table in the module beside it.

from lt_core.profiler import Profiler as PassThroughProfiler
from lt_core.profiler import Profiler as Profiler
from lt.profilers import profiler as profiler

__all__ = [
    "PassThroughProfiler",
    "Profiler",
    "profiler",
]
