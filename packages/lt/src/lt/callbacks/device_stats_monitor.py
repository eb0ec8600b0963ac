"""Names of `lightning.pytorch.callbacks.device_stats_monitor`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "DeviceStatsMonitor": "lt_callbacks:DeviceStatsMonitor",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
