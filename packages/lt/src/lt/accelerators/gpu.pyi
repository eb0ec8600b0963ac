# Written by tools/stubs.py from the table in the module beside it.

from lt_strategies.cuda import Cuda as GPUAccelerator

__all__ = [
    "GPUAccelerator",
]
