# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.profilers.advanced import AdvancedProfiler as AdvancedProfiler
from lt_callbacks.profilers.pytorch import PyTorchProfiler as PyTorchProfiler
from lt_callbacks.profilers.simple import SimpleProfiler as SimpleProfiler
from lt_callbacks.profilers.speed import SpeedProfiler as SpeedProfiler
from lt_callbacks.profilers.xla import XLAProfiler as XLAProfiler
from lt_core.profiler import Profiler as PassThroughProfiler
from lt_core.profiler import Profiler as Profiler
from lt.profilers import advanced as advanced
from lt.profilers import profiler as profiler
from lt.profilers import pytorch as pytorch
from lt.profilers import simple as simple
from lt.profilers import xla as xla

__all__ = [
    "AdvancedProfiler",
    "PassThroughProfiler",
    "Profiler",
    "PyTorchProfiler",
    "SimpleProfiler",
    "SpeedProfiler",
    "XLAProfiler",
    "advanced",
    "profiler",
    "pytorch",
    "simple",
    "xla",
]
