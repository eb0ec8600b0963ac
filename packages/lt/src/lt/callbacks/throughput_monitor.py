"""Names of `lightning.pytorch.callbacks.throughput_monitor`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "ThroughputMonitor": "lt_callbacks:ThroughputMonitor",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
