# Written by tools/stubs.py from the table in the module beside it.

from lt_core.environment import Environment as ClusterEnvironment
from lt_core.environment import Environment as Environment
from lt_strategies.environments import Kubernetes as KubeflowEnvironment
from lt_strategies.environments import Lsf as LSFEnvironment
from lt_strategies.environments import Mpi as MPIEnvironment
from lt_strategies.environments import Slurm as SLURMEnvironment
from lt_strategies.environments import Torchrun as TorchElasticEnvironment
from lt_strategies.job import LaunchedEnvironment as LightningEnvironment

__all__ = [
    "ClusterEnvironment",
    "Environment",
    "KubeflowEnvironment",
    "LSFEnvironment",
    "LightningEnvironment",
    "MPIEnvironment",
    "SLURMEnvironment",
    "TorchElasticEnvironment",
]
