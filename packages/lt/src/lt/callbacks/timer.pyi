# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.timer import Timer as Timer

__all__ = [
    "Timer",
]
