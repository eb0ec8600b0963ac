"""Where a run happens: accelerators, strategies, launchers, environments and precision.

Everything here is found by name through entry points; import a class only to give it arguments of your own:
``Trainer(strategy=DDP(find_unused_parameters=True))``. Names are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any

_WHERE = {
    "Cuda": ".accelerators.cuda",
    "DDP": ".ddp",
    "Distributed": ".distributed",
    "ForkLauncher": ".launch.processes",
    "ForkserverLauncher": ".launch.processes",
    "Kubernetes": ".environments",
    "LaunchedEnvironment": ".environments",
    "Lsf": ".environments",
    "Mixed": ".precision.dtypes",
    "Mpi": ".environments",
    "Mps": ".accelerators.mps",
    "Plain": ".environments",
    "ScaledMixed": ".precision.dtypes",
    "ScriptLauncher": ".launch.script",
    "Slurm": ".environments",
    "SpawnLauncher": ".launch.processes",
    "Torchrun": ".environments",
    "TruePrecision": ".precision.dtypes",
    "XLA": ".xla.spmd",
    "XLAProcesses": ".xla.processes",
    "XLASPMD": ".xla.spmd",
    "Xla": ".xla.device",
    "leave_group": ".group",
}
"""Each public name, and the module that it comes from."""

__all__ = sorted(_WHERE)  # noqa: PLE0605  (the table above is the list)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("lt-strategies")
    if name in _WHERE:
        return getattr(import_module(_WHERE[name], __name__), name)
    from lt_core.errors import PluginError  # not above: a script's watcher imports this package without lt_core
    from lt_core.plugins import BROUGHT_BY, install_hint

    if (package := BROUGHT_BY[f"names of {__name__}"].get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if PathFinder.find_spec(module := package.replace("-", "_")) is None:
        raise PluginError(f"{__name__}.{name} comes with {package}: {install_hint(package)}", code="LT105")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
