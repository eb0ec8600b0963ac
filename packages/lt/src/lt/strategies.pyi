# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_core.strategy import SingleDevice as SingleDeviceStrategy
from lt_core.strategy import Strategy as Strategy
from lt_parallel.fsdp import FSDP as FSDP
from lt_parallel.fsdp import FSDP as FSDPStrategy
from lt_parallel.model_parallel import ModelParallel as ModelParallel
from lt_parallel.model_parallel import ModelParallel as ModelParallelStrategy
from lt_parallel.pipeline import PipelineParallel as PipelineParallel
from lt_parallel.pipelined import Pipelined as Pipelined
from lt_strategies.ddp import DDP as DDP
from lt_strategies.ddp import DDP as DDPStrategy
from lt_strategies.ddp import ddp_spawn as DDPSpawnStrategy
from lt_strategies.distributed import Distributed as Distributed
from lt_strategies.distributed import Distributed as ParallelStrategy
from lt_strategies.group import leave_group as leave_group
from lt_xla.spmd import XLA as XLA
from lt_xla.spmd import XLA as XLAStrategy
from lt_xla.spmd import XLASPMD as XLASPMD

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
    "PipelineParallel",
    "Pipelined",
    "SingleDeviceStrategy",
    "Strategy",
    "XLA",
    "XLASPMD",
    "XLAStrategy",
    "leave_group",
]
