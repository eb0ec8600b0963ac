# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.tuner import Tuner as Tuner
from lt.tuner import tuning as tuning

__all__ = [
    "Tuner",
    "tuning",
]
