# Written by tools/stubs.py from the table in the module beside it.

from lt_strategies.cuda import Cuda as CUDAAccelerator

__all__ = [
    "CUDAAccelerator",
]
