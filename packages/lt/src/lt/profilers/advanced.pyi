# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.profilers.advanced import AdvancedProfiler as AdvancedProfiler

__all__ = [
    "AdvancedProfiler",
]
