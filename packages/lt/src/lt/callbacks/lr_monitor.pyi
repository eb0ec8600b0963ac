# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.lr_monitor import LearningRateMonitor as LearningRateMonitor

__all__ = [
    "LearningRateMonitor",
]
