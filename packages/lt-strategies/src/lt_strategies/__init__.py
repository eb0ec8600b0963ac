"""Where a run happens: accelerators, strategies, launchers, environments and precision.

Everything here is found by name through entry points; import a class only to give it arguments of your own:
``Trainer(strategy=DDP(find_unused_parameters=True))``. Names are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lt_strategies.cuda import Cuda
    from lt_strategies.ddp import DDP
    from lt_strategies.distributed import Distributed
    from lt_strategies.environments import Kubernetes, Lsf, Mpi, Plain, Slurm, Torchrun
    from lt_strategies.fsdp import FSDP, ModelParallel
    from lt_strategies.group import leave_group
    from lt_strategies.job import LaunchedEnvironment
    from lt_strategies.mps import Mps
    from lt_strategies.pipeline import Pipelined, PipelineParallel
    from lt_strategies.precision import Mixed, ScaledMixed, TruePrecision
    from lt_strategies.processes import ForkLauncher, ForkserverLauncher, SpawnLauncher
    from lt_strategies.script import ScriptLauncher
    from lt_strategies.xla import XLA, XLASPMD
    from lt_strategies.xla_device import Xla
    from lt_strategies.xla_launch import XLAProcesses

__all__ = [
    "DDP",
    "FSDP",
    "XLA",
    "XLASPMD",
    "Cuda",
    "Distributed",
    "ForkLauncher",
    "ForkserverLauncher",
    "Kubernetes",
    "LaunchedEnvironment",
    "Lsf",
    "Mixed",
    "ModelParallel",
    "Mpi",
    "Mps",
    "PipelineParallel",
    "Pipelined",
    "Plain",
    "ScaledMixed",
    "ScriptLauncher",
    "Slurm",
    "SpawnLauncher",
    "Torchrun",
    "TruePrecision",
    "XLAProcesses",
    "Xla",
    "leave_group",
]

_WHERE = {
    "lt_strategies.cuda": ("Cuda",),
    "lt_strategies.ddp": ("DDP",),
    "lt_strategies.distributed": ("Distributed",),
    "lt_strategies.environments": ("Kubernetes", "Lsf", "Mpi", "Plain", "Slurm", "Torchrun"),
    "lt_strategies.fsdp": ("FSDP", "ModelParallel"),
    "lt_strategies.group": ("leave_group",),
    "lt_strategies.job": ("LaunchedEnvironment",),
    "lt_strategies.mps": ("Mps",),
    "lt_strategies.pipeline": ("PipelineParallel", "Pipelined"),
    "lt_strategies.precision": ("Mixed", "ScaledMixed", "TruePrecision"),
    "lt_strategies.processes": ("ForkLauncher", "ForkserverLauncher", "SpawnLauncher"),
    "lt_strategies.script": ("ScriptLauncher",),
    "lt_strategies.xla": ("XLA", "XLASPMD"),
    "lt_strategies.xla_device": ("Xla",),
    "lt_strategies.xla_launch": ("XLAProcesses",),
}
_HOME = {name: module for module, names in _WHERE.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("lt-strategies")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
