# Written by tools/stubs.py from lt/names.py.

from lt_tuning.tuner import Tuner as Tuner

__all__ = [
    "Tuner",
]
