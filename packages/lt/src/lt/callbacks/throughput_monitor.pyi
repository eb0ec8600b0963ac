# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.throughput_monitor import ThroughputMonitor as ThroughputMonitor

__all__ = [
    "ThroughputMonitor",
]
