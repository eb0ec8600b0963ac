# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.profilers.xla import XLAProfiler as XLAProfiler

__all__ = [
    "XLAProfiler",
]
