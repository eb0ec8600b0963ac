"""Profilers: where the time of a run goes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lt_callbacks.profilers.advanced import AdvancedProfiler as AdvancedProfiler
    from lt_callbacks.profilers.pytorch import PyTorchProfiler as PyTorchProfiler
    from lt_callbacks.profilers.simple import SimpleProfiler as SimpleProfiler
    from lt_callbacks.profilers.speed import SpeedProfiler as SpeedProfiler
    from lt_callbacks.profilers.xla import XLAProfiler as XLAProfiler
    from lt_core.profiler import Profiler as PassThroughProfiler

_WHERE = {
    "AdvancedProfiler": "advanced",
    "PyTorchProfiler": "pytorch",
    "SimpleProfiler": "simple",
    "SpeedProfiler": "speed",
    "XLAProfiler": "xla",
}
"""Each public name, and the module that it comes from."""

__all__ = [
    "AdvancedProfiler",
    "PassThroughProfiler",
    "PyTorchProfiler",
    "SimpleProfiler",
    "SpeedProfiler",
    "XLAProfiler",
]


def __getattr__(name: str) -> Any:
    if name == "PassThroughProfiler":  # Lightning's name for the default of lt-core
        from lt_core.profiler import Profiler

        return Profiler
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
