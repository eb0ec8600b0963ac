# Written by tools/stubs.py from lt/names.py.

from lt_callbacks.finders.tuner import Tuner as Tuner

__all__ = [
    "Tuner",
]
