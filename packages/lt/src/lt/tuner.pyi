# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_tuning.tuner import Tuner as Tuner

__all__ = [
    "Tuner",
]
