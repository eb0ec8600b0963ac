# Written by tools/stubs.py from lt/names.py.

from lt_callbacks.profilers.advanced import AdvancedProfiler as AdvancedProfiler
from lt_callbacks.profilers.pytorch import PyTorchProfiler as PyTorchProfiler
from lt_callbacks.profilers.simple import SimpleProfiler as SimpleProfiler
from lt_callbacks.profilers.speed import SpeedProfiler as SpeedProfiler
from lt_callbacks.profilers.xla import XLAProfiler as XLAProfiler
from lt_core.profiler import Profiler as PassThroughProfiler
from lt_core.profiler import Profiler as Profiler

__all__ = [
    "AdvancedProfiler",
    "PassThroughProfiler",
    "Profiler",
    "PyTorchProfiler",
    "SimpleProfiler",
    "SpeedProfiler",
    "XLAProfiler",
]
