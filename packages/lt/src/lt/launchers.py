"""Launchers: who starts the processes."""

from lt.lazy import lazy

NAMES = {
    "ForkLauncher": "lt_strategies.processes:ForkLauncher",
    "ForkserverLauncher": "lt_strategies.processes:ForkserverLauncher",
    "Launcher": "lt_core.launcher:Launcher",
    "ScriptLauncher": "lt_strategies.script:ScriptLauncher",
    "XLAProcesses": "lt_strategies.xla_launch:XLAProcesses",
    "SpawnLauncher": "lt_strategies.processes:SpawnLauncher",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
