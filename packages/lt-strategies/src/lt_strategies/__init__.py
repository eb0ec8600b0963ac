"""Where a run happens: accelerators, strategies, launchers, environments and precision.

Everything here is found by name through entry points; import a class only to give it arguments of your own:
``Trainer(strategy=DDP(find_unused_parameters=True))``. Names are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lt_strategies.accelerators.cuda import Cuda
    from lt_strategies.accelerators.mps import Mps
    from lt_strategies.ddp import DDP
    from lt_strategies.distributed import Distributed
    from lt_strategies.environments import Kubernetes, LaunchedEnvironment, Lsf, Mpi, Plain, Slurm, Torchrun
    from lt_strategies.group import leave_group
    from lt_strategies.launch.processes import ForkLauncher, ForkserverLauncher, SpawnLauncher
    from lt_strategies.launch.script import ScriptLauncher
    from lt_strategies.precision.dtypes import Mixed, ScaledMixed, TruePrecision
    from lt_strategies.xla.device import Xla
    from lt_strategies.xla.processes import XLAProcesses
    from lt_strategies.xla.spmd import XLA, XLASPMD

__all__ = [
    "DDP",
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
    "Mpi",
    "Mps",
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
    "lt_strategies.accelerators.cuda": ("Cuda",),
    "lt_strategies.ddp": ("DDP",),
    "lt_strategies.distributed": ("Distributed",),
    "lt_strategies.environments": ("Kubernetes", "LaunchedEnvironment", "Lsf", "Mpi", "Plain", "Slurm", "Torchrun"),
    "lt_strategies.group": ("leave_group",),
    "lt_strategies.accelerators.mps": ("Mps",),
    "lt_strategies.precision.dtypes": ("Mixed", "ScaledMixed", "TruePrecision"),
    "lt_strategies.launch.processes": ("ForkLauncher", "ForkserverLauncher", "SpawnLauncher"),
    "lt_strategies.launch.script": ("ScriptLauncher",),
    "lt_strategies.xla.spmd": ("XLA", "XLASPMD"),
    "lt_strategies.xla.device": ("Xla",),
    "lt_strategies.xla.processes": ("XLAProcesses",),
}
_HOME = {name: module for module, names in _WHERE.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("lt-strategies")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    from lt_core.errors import PluginError  # not above: a script's watcher imports this package without lt_core
    from lt_core.plugins import BROUGHT_BY, install_hint

    if (package := BROUGHT_BY[f"names of {__name__}"].get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if PathFinder.find_spec(module := package.replace("-", "_")) is None:
        raise PluginError(f"{__name__}.{name} comes with {package}: {install_hint(package)}", code="LT105")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
