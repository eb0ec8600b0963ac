# Written by tools/stubs.py from the table in the module beside it.

from lt_strategies.fsdp import FSDP as FSDPStrategy

__all__ = [
    "FSDPStrategy",
]
