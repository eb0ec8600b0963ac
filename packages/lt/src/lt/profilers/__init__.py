"""Profilers: where the time of a run goes."""

from lt.lazy import lazy

NAMES = {
    "AdvancedProfiler": "lt_callbacks.profilers.advanced:AdvancedProfiler",
    "PassThroughProfiler": "lt_core.profiler:Profiler",
    "Profiler": "lt_core.profiler:Profiler",
    "PyTorchProfiler": "lt_callbacks.profilers.pytorch:PyTorchProfiler",
    "SimpleProfiler": "lt_callbacks.profilers.simple:SimpleProfiler",
    "SpeedProfiler": "lt_callbacks.profilers.speed:SpeedProfiler",
    "XLAProfiler": "lt_callbacks.profilers.xla:XLAProfiler",
}
"""Each name, and where it comes from."""

MODULES = ("advanced", "profiler", "pytorch", "simple", "xla")
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
