# Written by tools/stubs.py from the table in the module beside it.

from lt_core.profiler import Profiler as Profiler

__all__ = [
    "Profiler",
]
