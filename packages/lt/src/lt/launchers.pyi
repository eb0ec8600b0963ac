# Written by tools/stubs.py from lt/names.py.

from lt_core.launcher import Launcher as Launcher
from lt_strategies.processes import ForkLauncher as ForkLauncher
from lt_strategies.processes import ForkserverLauncher as ForkserverLauncher
from lt_strategies.processes import SpawnLauncher as SpawnLauncher
from lt_strategies.script import ScriptLauncher as ScriptLauncher
from lt_strategies.xla_launch import XLAProcesses as XLAProcesses

__all__ = [
    "ForkLauncher",
    "ForkserverLauncher",
    "Launcher",
    "ScriptLauncher",
    "SpawnLauncher",
    "XLAProcesses",
]
