# Written by tools/stubs.py from the table in the module beside it.

from lt_strategies.mps import Mps as MPSAccelerator

__all__ = [
    "MPSAccelerator",
]
