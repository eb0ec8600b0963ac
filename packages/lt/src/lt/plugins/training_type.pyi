# Written by tools/stubs.py from the table in the module beside it.

from lt_strategies.ddp import DDP as DDPPlugin
from lt_strategies.ddp import ddp_spawn as DDPSpawnPlugin

__all__ = [
    "DDPPlugin",
    "DDPSpawnPlugin",
]
