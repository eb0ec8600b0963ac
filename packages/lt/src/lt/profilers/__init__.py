"""Profilers: where the time of a run goes."""

from lt.lazy import lazy

NAMES = {
    "PassThroughProfiler": "lt_core.profiler:Profiler",
    "Profiler": "lt_core.profiler:Profiler",
}
"""Each name, and where it comes from."""

MODULES = ("profiler",)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
