"""Names of `pytorch_lightning.profiler`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "AbstractProfiler": "lt_core.profiler:Profiler",
    "AdvancedProfiler": "lt_callbacks.profilers.advanced:AdvancedProfiler",
    "BaseProfiler": "lt_core.profiler:Profiler",
    "PassThroughProfiler": "lt_core.profiler:Profiler",
    "Profiler": "lt_core.profiler:Profiler",
    "PyTorchProfiler": "lt_callbacks.profilers.pytorch:PyTorchProfiler",
    "SimpleProfiler": "lt_callbacks.profilers.simple:SimpleProfiler",
    "XLAProfiler": "lt_callbacks.profilers.xla:XLAProfiler",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
