"""Environments: who started the processes, and who says the ranks."""

from lt.lazy import lazy

NAMES = {
    "ClusterEnvironment": "lt_core.environment:Environment",
    "Environment": "lt_core.environment:Environment",
    "KubeflowEnvironment": "lt_strategies.environments:Kubernetes",
    "LSFEnvironment": "lt_strategies.environments:Lsf",
    "LightningEnvironment": "lt_strategies.job:LaunchedEnvironment",
    "MPIEnvironment": "lt_strategies.environments:Mpi",
    "SLURMEnvironment": "lt_strategies.environments:Slurm",
    "TorchElasticEnvironment": "lt_strategies.environments:Torchrun",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
