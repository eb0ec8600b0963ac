"""Cluster environments as Lightning has them: questions are methods, and one can be made and handed to the Trainer."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from signal import Signals
from typing import Any

from lt_core import plugins
from lt_core.environment import Environment

__all__ = [
    "ClusterEnvironment",
    "KubeflowEnvironment",
    "LSFEnvironment",
    "LightningEnvironment",
    "MPIEnvironment",
    "SLURMEnvironment",
    "TorchElasticEnvironment",
    "XLAEnvironment",
    "as_environment",
]


class ClusterEnvironment:
    """The environment of a process, by Lightning's names. A user's subclass overrides the facts of its cluster.

    Args:
        given: Lightning's arguments (``auto_requeue``, ``requeue_signal``, ``main_address``); lt asks the scheduler.
    """

    detects = ""
    """The name of lt's environment that reads the same variables."""

    def __init__(self, *given: Any, **options: Any) -> None:
        self.facts = self._lt_detected() or Environment()
        self.__dict__.update(options)

    @classmethod
    def of(cls, facts: Environment) -> ClusterEnvironment:
        """Return lt's environment by Lightning's names."""
        name = "lt" if facts.name == "local" else facts.name  # which lt's launchers take the place of
        made = object.__new__(next((kind for kind in cls.__subclasses__() if kind.detects == name), cls))
        made.facts = facts
        return made

    @classmethod
    def _lt_detected(cls) -> Environment | None:
        found: Environment | None = plugins.load("environments", cls.detects).detect() if cls.detects else None
        return found

    @classmethod
    def detect(cls) -> bool:
        """Return whether this process runs in such an environment."""
        return cls._lt_detected() is not None

    @property
    def creates_processes_externally(self) -> bool:
        """Whether the processes are started elsewhere."""
        return self.facts.processes_exist

    @property
    def main_address(self) -> str:
        """Where rank 0 listens."""
        return self.facts.main_address

    @property
    def main_port(self) -> int:
        """Where rank 0 listens."""
        return self.facts.main_port

    def world_size(self) -> int:
        """Return the number of processes."""
        return self.facts.world_size

    def set_world_size(self, size: int) -> None:
        """Set the result of :meth:`world_size`, where the processes are still to be started."""
        if not self.facts.processes_exist:
            self.facts = replace(self.facts, world_size=size)

    def global_rank(self) -> int:
        """Return this process's number."""
        return self.facts.rank

    def set_global_rank(self, rank: int) -> None:
        """Set the result of :meth:`global_rank`, where the processes are still to be started."""
        if not self.facts.processes_exist:
            self.facts = replace(self.facts, rank=rank)

    def local_rank(self) -> int:
        """Return this process's number on its node."""
        return self.facts.local_rank

    def node_rank(self) -> int:
        """Return the number of this node."""
        return self.facts.node_rank

    def validate_settings(self, num_devices: int, num_nodes: int) -> None:
        """Do nothing: the strategy compares the Trainer's numbers with the job's."""

    def teardown(self) -> None:
        """Do nothing."""


class LightningEnvironment(ClusterEnvironment):
    """A machine without a scheduler; lt's launchers start the processes."""

    detects = "lt"

    @classmethod
    def detect(cls) -> bool:
        """Return True: everything is a machine."""
        return True


class SLURMEnvironment(ClusterEnvironment):
    """Tasks of ``srun``."""

    detects = "slurm"
    auto_requeue = True
    requeue_signal: Signals | None = getattr(signal, "SIGUSR1", None)  # Windows has none

    def __init__(self, auto_requeue: bool = True, requeue_signal: Signals | None = None) -> None:
        super().__init__(auto_requeue=auto_requeue, requeue_signal=requeue_signal or self.requeue_signal)

    @staticmethod
    def job_id() -> int | None:
        """Return the job's number; None outside of a job."""
        text = os.environ.get("SLURM_JOB_ID", "")
        return int(text) if text.isdecimal() else None

    @staticmethod
    def job_name() -> str | None:
        """Return the job's name; None outside of a job."""
        return os.environ.get("SLURM_JOB_NAME")

    @staticmethod
    def resolve_root_node_address(nodes: str) -> str:
        """Return the first host of a list as SLURM writes it: ``"host[5-9],other"`` -> ``"host5"``."""
        first = re.sub(r"\[(.*?)[,-].*?\]", r"\1", nodes)
        return re.split("[ ,]", re.sub(r"\[(.*?)\]", r"\1", first))[0]


class TorchElasticEnvironment(ClusterEnvironment):
    """Processes of ``torchrun``."""

    detects = "torchrun"


class LSFEnvironment(ClusterEnvironment):
    """Tasks of ``jsrun``."""

    detects = "lsf"


class MPIEnvironment(ClusterEnvironment):
    """Processes of ``mpirun``."""

    detects = "mpi"


class KubeflowEnvironment(ClusterEnvironment):
    """Processes of a PyTorchJob."""

    detects = "kubernetes"


class XLAEnvironment(ClusterEnvironment):
    """Processes on TPUs, which lt's launcher starts."""


def as_environment(plugin: Any) -> Any:
    """Return lt's environment for one of Lightning's kind, by its answers; any other object as it is."""
    if not isinstance(plugin, ClusterEnvironment):
        return plugin
    base = getattr(plugin, "facts", None) or Environment()
    size, local = plugin.world_size(), int(os.environ.get("LOCAL_WORLD_SIZE", "0"))
    if not plugin.creates_processes_externally:
        return base
    return replace(
        base,
        rank=plugin.global_rank(),
        local_rank=plugin.local_rank(),
        node_rank=plugin.node_rank(),
        world_size=size,
        local_world_size=base.local_world_size if base.processes_exist else local or size,
        main_address=plugin.main_address,
        main_port=plugin.main_port,
        processes_exist=True,
    )
