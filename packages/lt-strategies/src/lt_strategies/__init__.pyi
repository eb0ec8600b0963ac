# Written by tools/stubs.py from the table in __init__.py.

from lt_strategies.accelerators.cuda import Cuda as Cuda
from lt_strategies.accelerators.mps import Mps as Mps
from lt_strategies.ddp import DDP as DDP
from lt_strategies.distributed import Distributed as Distributed
from lt_strategies.environments import Kubernetes as Kubernetes
from lt_strategies.environments import LaunchedEnvironment as LaunchedEnvironment
from lt_strategies.environments import Lsf as Lsf
from lt_strategies.environments import Mpi as Mpi
from lt_strategies.environments import Plain as Plain
from lt_strategies.environments import Slurm as Slurm
from lt_strategies.environments import Torchrun as Torchrun
from lt_strategies.group import leave_group as leave_group
from lt_strategies.launch.processes import ForkLauncher as ForkLauncher
from lt_strategies.launch.processes import ForkserverLauncher as ForkserverLauncher
from lt_strategies.launch.processes import SpawnLauncher as SpawnLauncher
from lt_strategies.launch.script import ScriptLauncher as ScriptLauncher
from lt_strategies.precision.dtypes import Mixed as Mixed
from lt_strategies.precision.dtypes import ScaledMixed as ScaledMixed
from lt_strategies.precision.dtypes import TruePrecision as TruePrecision

__version__: str
