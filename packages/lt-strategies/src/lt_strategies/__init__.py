"""Where a run happens: accelerators, strategies, launchers, environments and precision.

Everything here is found by name through entry points; import a class only to give it arguments of your own:
``Trainer(strategy=DDP(find_unused_parameters=True))``. Names are imported when first used.
"""

from __future__ import annotations

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
    "leave_group": ".group",
}
"""Each public name, and the module that it comes from."""

__all__ = sorted(_WHERE)  # noqa: PLE0605  (the table above is the list)


def __getattr__(name: str) -> Any:
    from lt_core.plugins import load_name  # not above: a script's watcher imports this package without lt_core

    return load_name(__name__, _WHERE, name)


def __dir__() -> list[str]:
    return sorted(__all__)
