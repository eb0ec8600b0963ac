# Written by tools/stubs.py from the table in the module beside it.

from lt_core.strategy import SingleDevice as SingleDeviceStrategy
from lt_core.strategy import Strategy as Strategy
from lt_strategies.ddp import DDP as DDP
from lt_strategies.ddp import DDP as DDPStrategy
from lt_strategies.ddp import ddp_spawn as DDPSpawnStrategy
from lt_strategies.distributed import Distributed as Distributed
from lt_strategies.distributed import Distributed as ParallelStrategy
from lt_strategies.fsdp import FSDP as FSDP
from lt_strategies.fsdp import FSDP as FSDPStrategy
from lt_strategies.fsdp import ModelParallel as ModelParallel
from lt_strategies.fsdp import ModelParallel as ModelParallelStrategy
from lt_strategies.group import leave_group as leave_group
from lt_strategies.xla import XLA as XLA
from lt_strategies.xla import XLA as XLAStrategy
from lt_strategies.xla import XLASPMD as XLASPMD
from lt.strategies import ddp as ddp
from lt.strategies import fsdp as fsdp
from lt.strategies import model_parallel as model_parallel
from lt.strategies import parallel as parallel
from lt.strategies import single_device as single_device
from lt.strategies import strategy as strategy
from lt.strategies import xla as xla

__all__ = [
    "DDP",
    "DDPSpawnStrategy",
    "DDPStrategy",
    "Distributed",
    "FSDP",
    "FSDPStrategy",
    "ModelParallel",
    "ModelParallelStrategy",
    "ParallelStrategy",
    "SingleDeviceStrategy",
    "Strategy",
    "XLA",
    "XLASPMD",
    "XLAStrategy",
    "ddp",
    "fsdp",
    "leave_group",
    "model_parallel",
    "parallel",
    "single_device",
    "strategy",
    "xla",
]
