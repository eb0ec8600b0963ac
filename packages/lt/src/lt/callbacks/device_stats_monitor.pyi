# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.device_stats_monitor import DeviceStatsMonitor as DeviceStatsMonitor

__all__ = [
    "DeviceStatsMonitor",
]
