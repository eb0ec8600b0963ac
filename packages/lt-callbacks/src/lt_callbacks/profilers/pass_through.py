"""The profiler that measures nothing."""

from __future__ import annotations

from lt_core.profiler import Profiler

__all__ = ["PassThroughProfiler"]

PassThroughProfiler = Profiler
"""Lightning's name for what core has as the default."""
