"""Measures a run and its module: profilers, throughput, device statistics, slow ranks, spikes, NaN, serving.

Names load when they are used; importing this package costs nothing.
"""

from __future__ import annotations

from typing import Any

_WHERE = {
    "AdvancedProfiler": ".advanced",
    "DeviceStatsMonitor": ".monitors.device_stats",
    "GarbageCollection": ".garbage_collection",
    "GitState": ".monitors.git_state",
    "MemorySnapshot": ".monitors.memory_snapshot",
    "NaNGuard": ".monitors.nan_guard",
    "NonFiniteError": ".monitors.nan_guard",
    "PyTorchProfiler": ".pytorch",
    "RankTimes": ".monitors.slow_rank",
    "ServingCheck": ".serving",
    "ServingReport": ".serving",
    "SimpleProfiler": ".simple",
    "SlowRankMonitor": ".monitors.slow_rank",
    "SpeedProfiler": ".speed",
    "SpikeDetection": ".monitors.spike",
    "ThroughputMonitor": ".monitors.throughput",
    "TrainingSpikeException": ".monitors.spike",
    "XLAProfiler": ".xla",
    "check_serving": ".serving",
    "grad_norm": ".gradients",
    "measure_flops": ".monitors.chip_flops",
}
"""Each public name, and the module that it comes from."""

__all__ = sorted(_WHERE)  # noqa: PLE0605  (the table above is the list)


def __getattr__(name: str) -> Any:
    from lt_core.plugins import load_name

    return load_name(__name__, _WHERE, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
