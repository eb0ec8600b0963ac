# Written by tools/stubs.py from the table in the module beside it.

from lt_core.strategy import Strategy as SingleDeviceStrategy
from lt_core.strategy import Strategy as Strategy
from lt_strategies.ddp import DDP as DDP
from lt_strategies.ddp import DDP as DDPStrategy
from lt_strategies.distributed import Distributed as Distributed
from lt_strategies.distributed import Distributed as ParallelStrategy
from lt.strategies import ddp as ddp
from lt.strategies import single_device as single_device
from lt.strategies import strategy as strategy

__all__ = [
    "DDP",
    "DDPStrategy",
    "Distributed",
    "ParallelStrategy",
    "SingleDeviceStrategy",
    "Strategy",
    "ddp",
    "single_device",
    "strategy",
]
