# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.profilers.advanced import AdvancedProfiler as AdvancedProfiler
from lt_callbacks.profilers.pytorch import PyTorchProfiler as PyTorchProfiler
from lt_callbacks.profilers.simple import SimpleProfiler as SimpleProfiler
from lt_callbacks.profilers.xla import XLAProfiler as XLAProfiler
from lt_core.profiler import Profiler as AbstractProfiler
from lt_core.profiler import Profiler as BaseProfiler
from lt_core.profiler import Profiler as PassThroughProfiler
from lt_core.profiler import Profiler as Profiler

__all__ = [
    "AbstractProfiler",
    "AdvancedProfiler",
    "BaseProfiler",
    "PassThroughProfiler",
    "Profiler",
    "PyTorchProfiler",
    "SimpleProfiler",
    "XLAProfiler",
]
