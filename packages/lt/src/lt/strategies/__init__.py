"""Strategies: how a run is spread over devices and processes."""

from lt.lazy import lazy

NAMES = {
    "DDP": "lt_strategies.ddp:DDP",
    "DDPSpawnStrategy": "lt_strategies.ddp:ddp_spawn",
    "DDPStrategy": "lt_strategies.ddp:DDP",
    "Distributed": "lt_strategies.distributed:Distributed",
    "FSDP": "lt_strategies.fsdp:FSDP",
    "FSDPStrategy": "lt_strategies.fsdp:FSDP",
    "ModelParallel": "lt_strategies.fsdp:ModelParallel",
    "ModelParallelStrategy": "lt_strategies.fsdp:ModelParallel",
    "ParallelStrategy": "lt_strategies.distributed:Distributed",
    "SingleDeviceStrategy": "lt_core.strategy:SingleDevice",
    "Strategy": "lt_core.strategy:Strategy",
    "XLA": "lt_strategies.xla:XLA",
    "XLASPMD": "lt_strategies.xla:XLASPMD",
    "XLAStrategy": "lt_strategies.xla:XLA",
    "leave_group": "lt_strategies:leave_group",
}
"""Each name, and where it comes from."""

MODULES = (
    "ddp",
    "fsdp",
    "model_parallel",
    "parallel",
    "single_device",
    "strategy",
    "xla",
)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
