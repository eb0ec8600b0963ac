# Written by tools/stubs.py from the table in the module beside it.

from lt_strategies.distributed import Distributed as ParallelStrategy

__all__ = [
    "ParallelStrategy",
]
