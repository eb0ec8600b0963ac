# Written by tools/stubs.py from the table in the module beside it.

from lt_strategies.ddp import DDP as DDPStrategy

__all__ = [
    "DDPStrategy",
]
