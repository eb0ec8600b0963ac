# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_core.launcher import Launcher as Launcher
from lt_strategies.launch.processes import ForkLauncher as ForkLauncher
from lt_strategies.launch.processes import ForkserverLauncher as ForkserverLauncher
from lt_strategies.launch.processes import SpawnLauncher as SpawnLauncher
from lt_strategies.launch.script import ScriptLauncher as ScriptLauncher
from lt_xla.processes import XLAProcesses as XLAProcesses

__all__ = [
    "ForkLauncher",
    "ForkserverLauncher",
    "Launcher",
    "ScriptLauncher",
    "SpawnLauncher",
    "XLAProcesses",
]
