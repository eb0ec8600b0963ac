# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_core.profiler import Profiler as PassThroughProfiler
from lt_core.profiler import Profiler as Profiler
from lt_profilers.advanced import AdvancedProfiler as AdvancedProfiler
from lt_profilers.pytorch import PyTorchProfiler as PyTorchProfiler
from lt_profilers.simple import SimpleProfiler as SimpleProfiler
from lt_profilers.speed import SpeedProfiler as SpeedProfiler
from lt_profilers.xla import XLAProfiler as XLAProfiler

__all__ = [
    "AdvancedProfiler",
    "PassThroughProfiler",
    "Profiler",
    "PyTorchProfiler",
    "SimpleProfiler",
    "SpeedProfiler",
    "XLAProfiler",
]
