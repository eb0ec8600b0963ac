# Written by tools/stubs.py from the table in the module beside it.

from lt_strategies.fsdp import ModelParallel as ModelParallelStrategy

__all__ = [
    "ModelParallelStrategy",
]
