# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.profilers.simple import SimpleProfiler as SimpleProfiler

__all__ = [
    "SimpleProfiler",
]
