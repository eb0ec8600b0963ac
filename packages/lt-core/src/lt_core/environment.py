"""The environment of a process: its rank, the world size and the place to meet."""

from dataclasses import dataclass
from typing import ClassVar, Self

from lt_core.interface import Interface
from lt_core.rank import set_alone

__all__ = ["Environment"]


@dataclass(frozen=True, kw_only=True)
class Environment(Interface):
    """The facts of one process about its job; the default is a job of one process.

    A subclass for a cluster (torchrun, SLURM...) overrides :meth:`detect`, which reads the variables that its scheduler
    sets. It is found by an entry point in ``lt.environments``. ``lt_testing.EnvironmentKit`` tests these promises.

    Attributes:
        priority: where several say that they are in force, the one of the highest counts: lt's own launchers have 20,
            torchrun 10, schedulers 0, since the former run inside the latter's jobs; plain variables -10.
        rank: number of this process in the whole job, from 0.
        local_rank: number of this process on its node, from 0.
        node_rank: number of its node, from 0.
        world_size: processes in the whole job.
        local_world_size: processes on this node.
        num_nodes: nodes in the job; 0 where nothing says it. See :attr:`nodes`.
        main_address: host where rank 0 listens. Jobs on one machine stay on loopback.
        main_port: port where rank 0 listens; 0 where the processes meet in another way.
        init_method: how the processes meet, as ``torch.distributed.init_process_group(init_method=...)`` takes it;
            empty for ``tcp://main_address:main_port``. See :attr:`rendezvous`.
        processes_exist: True where somebody else (torchrun, srun) has started every rank's process already, so that
            nothing is to be launched.
        restart_count: how often the scheduler has restarted this job.
    """

    name: ClassVar[str] = "local"
    priority: ClassVar[int] = 0

    rank: int = 0
    local_rank: int = 0
    node_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    num_nodes: int = 0
    main_address: str = "127.0.0.1"
    main_port: int = 0
    init_method: str = ""
    processes_exist: bool = False
    restart_count: int = 0

    @property
    def nodes(self) -> int:
        """Nodes in the job: as many as it says, or as there must be if all have as many processes as this one."""
        return self.num_nodes or -(-self.world_size // max(1, self.local_world_size))

    @property
    def rendezvous(self) -> str:
        """Where the processes meet: the argument of
        ``torch.distributed.init_process_group(init_method=...)``.
        """
        return self.init_method or f"tcp://{self.main_address}:{self.main_port}"

    def settle(self, alone: bool) -> None:
        """Have loggers and ``rank_zero_only`` count this process as rank 0 of a job of its own, or no longer.

        Called by the Trainer that is made last. Before a run, only the variables of a scheduler say who a process is,
        and they do not know that each task of a sweep trains alone.
        """
        set_alone(alone and not self.processes_exist)

    def of_one_process(self) -> "Environment | None":
        """Return the environment of a Trainer of one process in this job, in which this one has its rank.

        None, as by default: a Trainer is of all processes of the job, or each has one of its own.
        """
        return None

    @classmethod
    def detect(cls) -> Self | None:
        """Return this process's facts where this kind of environment is in force, else None.

        It is asked in every process, perhaps several times, and only reads: it sets no variable, opens no process group
        and draws no random number. All ranks of a job give the same place to meet, which on several nodes is not
        loopback. A job of one process may be None.

        Raises:
            ConfigError: where the variables of this kind are there and make no sense; never another rank in silence.
        """
        return None
