"""Environments of processes that exist: lt's own launchers, torchrun, SLURM, MPI, LSF, Kubernetes, plain variables."""

from __future__ import annotations

import os
import re
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import torch.distributed as dist

from lt_core.environment import Environment
from lt_core.errors import ConfigError

if TYPE_CHECKING:
    from lt_strategies.job import RankClient

__all__ = ["Kubernetes", "LaunchedEnvironment", "Lsf", "Mpi", "Plain", "Slurm", "Torchrun"]

_PORTS = range(20000, 30000)
"""Range of the default port, which is chosen by the job's id; below the systems' ephemeral ports."""

_SHELLS = ("bash", "csh", "dash", "fish", "ksh", "sh", "tcsh", "zsh")
"""Names that ``srun --pty`` gives to a job, after its command."""


class LaunchedEnvironment(Environment):
    """A process of a job that lt's own launchers started: script, spawn, fork."""

    name: ClassVar[str] = "lt"
    priority: ClassVar[int] = 20

    @classmethod
    def detect(cls) -> Self | None:
        mine = _client()
        return None if mine is None else cls.of(mine)

    @classmethod
    def of(cls, mine: RankClient) -> Self:
        """Return the environment of the rank of this client; all ranks are on one machine."""
        return cls(
            rank=mine.rank,
            local_rank=mine.rank,
            world_size=mine.world_size,
            local_world_size=mine.world_size,
            num_nodes=1,
            init_method=(mine.folder / "store").as_uri(),
            processes_exist=True,
        )

    def of_one_process(self) -> Environment | None:
        mine = _client()
        return Environment(rank=self.rank, local_rank=self.rank) if mine and mine.one_process else None


class Torchrun(Environment):
    """Processes of ``torchrun`` (torch.distributed.elastic); its agent supervises and restarts them."""

    name: ClassVar[str] = "torchrun"
    priority: ClassVar[int] = 10

    @classmethod
    def detect(cls) -> Self | None:
        if _client() is not None or "TORCHELASTIC_RUN_ID" not in os.environ:
            return None
        return cls(
            rank=_number("RANK"),
            local_rank=_number("LOCAL_RANK"),
            node_rank=_number("GROUP_RANK"),
            world_size=_number("WORLD_SIZE"),
            local_world_size=_number("LOCAL_WORLD_SIZE"),
            num_nodes=_number("GROUP_WORLD_SIZE", 0),
            main_address=os.environ["MASTER_ADDR"],
            main_port=_number("MASTER_PORT"),
            init_method="env://",
            processes_exist=True,
            restart_count=_number("TORCHELASTIC_RESTART_COUNT", 0),
        )


class Slurm(Environment):
    """Tasks that ``srun`` started, one for each device. A job step of one task counts as an ordinary machine.

    So does a script that runs once in an allocation for many tasks: started by ``sbatch`` itself, or from the shell
    that ``salloc`` or ``srun --pty bash`` gave. Only ``srun`` starts tasks.
    """

    name: ClassVar[str] = "slurm"

    @classmethod
    def detect(cls) -> Self | None:
        if _taken() or "SLURM_PROCID" not in os.environ:
            return None
        world_size = _slurm_tasks()
        if world_size < 2 or _slurm_shell():
            return None
        nodes = _number("SLURM_STEP_NUM_NODES", _number("SLURM_NNODES", 1))
        first = first_host(os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST", ""))
        return cls(
            rank=_number("SLURM_PROCID"),
            local_rank=_number("SLURM_LOCALID"),
            node_rank=_number("SLURM_NODEID", 0),
            world_size=world_size,
            local_world_size=_tasks_here(world_size, nodes),
            num_nodes=nodes,
            main_address=_address("127.0.0.1" if nodes == 1 else first),
            main_port=_port(os.environ.get("SLURM_JOB_ID", "") + os.environ.get("SLURM_STEP_ID", "")),
            processes_exist=True,
            restart_count=_number("SLURM_RESTART_COUNT", 0),
        )


class Mpi(Environment):
    """Processes that ``mpirun`` (Open MPI, MPICH, Intel MPI) started."""

    name: ClassVar[str] = "mpi"

    _NAMES: ClassVar[tuple[tuple[str, str, str, str], ...]] = (
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    )

    @classmethod
    def detect(cls) -> Self | None:
        names = next((names for names in cls._NAMES if _are_set(*names)), None)
        if _taken() or names is None or _number(names[1]) < 2:
            return None
        rank, world_size, local_rank, local_world_size = (_number(name) for name in names)
        job = os.environ.get("PMIX_NAMESPACE") or os.environ.get("PMI_JOBID") or str(os.getppid())
        return cls(
            rank=rank,
            local_rank=local_rank,
            node_rank=rank // local_world_size,
            world_size=world_size,
            local_world_size=local_world_size,
            num_nodes=_whole_nodes(world_size, local_world_size),
            main_address=_address("127.0.0.1" if world_size == local_world_size else ""),
            main_port=_port(job),
            processes_exist=True,
        )


class Lsf(Environment):
    """Tasks that LSF's ``jsrun`` started."""

    name: ClassVar[str] = "lsf"

    @classmethod
    def detect(cls) -> Self | None:
        there = _are_set("LSB_JOBID", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK")
        if _taken() or not there or (world_size := _number("JSM_NAMESPACE_SIZE")) < 2:
            return None
        hosts, rank = _lsf_hosts(), _number("JSM_NAMESPACE_RANK")
        nodes = len(set(hosts))
        local_world_size = _number("JSM_NAMESPACE_LOCAL_SIZE", max(1, world_size // max(1, nodes)))
        return cls(
            rank=rank,
            local_rank=_number("JSM_NAMESPACE_LOCAL_RANK"),
            node_rank=rank // local_world_size,
            world_size=world_size,
            local_world_size=local_world_size,
            num_nodes=nodes,
            main_address=_address("127.0.0.1" if world_size == local_world_size else (hosts or [""])[0]),
            main_port=_port(os.environ["LSB_JOBID"]),
            processes_exist=True,
        )


class Kubernetes(Environment):
    """Pods of a PyTorchJob (Kubeflow) that run the script themselves, one process in each pod."""

    name: ClassVar[str] = "kubernetes"

    @classmethod
    def detect(cls) -> Self | None:
        there = _are_set("KUBERNETES_SERVICE_HOST", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
        if _taken() or not there or _number("WORLD_SIZE") < 2:
            return None
        rank, local_world_size = _number("RANK"), _number("LOCAL_WORLD_SIZE", 1)
        return cls(
            rank=rank,
            local_rank=_number("LOCAL_RANK", 0),
            node_rank=_number("NODE_RANK", rank // local_world_size),
            world_size=_number("WORLD_SIZE"),
            local_world_size=local_world_size,
            main_address=os.environ["MASTER_ADDR"],
            main_port=_number("MASTER_PORT"),
            processes_exist=True,
        )


class Plain(Environment):
    """Processes that somebody started by hand or by a script, Ray Train's workers among them.

    Known by RANK, WORLD_SIZE above 1 and MASTER_ADDR, all three, or by a process group that exists already. LOCAL_RANK,
    LOCAL_WORLD_SIZE, NODE_RANK and MASTER_PORT are read where they are set. LOCAL_RANK, NODE_RANK and LOCAL_WORLD_SIZE
    together can replace RANK. Without them, processes that meet on this machine's loopback all run here, and others one
    on each node.
    """

    name: ClassVar[str] = "RANK, WORLD_SIZE and MASTER_ADDR"
    priority: ClassVar[int] = -10

    @classmethod
    def detect(cls) -> Self | None:
        world_size, rank = _plain()
        if _taken() or world_size < 2 or rank is None:
            return None
        address = os.environ.get("MASTER_ADDR", "127.0.0.1")
        here = _number("LOCAL_WORLD_SIZE", world_size if address in ("127.0.0.1", "localhost", "::1") else 0)
        if here == 0 and "LOCAL_RANK" in os.environ:
            raise ConfigError(
                f"RANK, WORLD_SIZE={world_size}, LOCAL_RANK and MASTER_ADDR={address!r} are set: one of several "
                "processes, and nothing says how many run on this node. Set LOCAL_WORLD_SIZE too, or use torchrun.",
                code="LT735",
            )
        here = here or 1
        return cls(
            rank=rank,
            local_rank=_number("LOCAL_RANK", rank % here),
            node_rank=_number("NODE_RANK", _number("GROUP_RANK", rank // here)),
            world_size=world_size,
            local_world_size=here,
            num_nodes=_whole_nodes(world_size, here),
            main_address=address,
            main_port=_number("MASTER_PORT", 29500),  # torch's own default
            processes_exist=True,
        )


def first_host(nodes: str) -> str:
    """Return the first host of a SLURM node list: ``"node[7-9,12],other"`` gives ``"node7"``.

    >>> first_host("rack[1-2]gpu-[003-010,12]-ib,login1")
    'rack1gpu-003-ib'
    """
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes.strip())
    return re.sub(r"\[([^\]]*)\]", lambda part: re.split("[-,]", part[1])[0], first[0]) if first is not None else ""


def _client() -> RankClient | None:
    """Return the client of a rank that lt's own launchers started; in other processes supervision is not imported."""
    if "LT_JOB" not in os.environ and "lt_strategies.job" not in sys.modules:
        return None
    from lt_strategies.job import rank_client

    return rank_client()


def _taken() -> bool:
    """Return whether lt's own launchers or torchrun started this process, inside a cluster's job perhaps."""
    return _client() is not None or "TORCHELASTIC_RUN_ID" in os.environ


def _slurm_tasks() -> int:
    """Return the tasks of the job step that this process is in; 1 where it is in none.

    ``SLURM_NTASKS`` is also set where nothing has started so many: in a batch script and in the shell of an allocation.
    """
    if "SLURM_STEP_NUM_TASKS" in os.environ:
        return _number("SLURM_STEP_NUM_TASKS")
    in_step = any(name in os.environ for name in ("SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"))
    return _number("SLURM_NTASKS", 1) if in_step else 1


def _slurm_shell() -> bool:
    """Return whether somebody typed this process's command in the shell of ``srun --pty``.

    Such a step may have many tasks, of which only the first has the terminal. Processes that an ``srun`` within that
    shell starts inherits its variables, but is another step and has no terminal.
    """
    shell = "SLURM_PTY_PORT" in os.environ or os.environ.get("SLURM_JOB_NAME") in _SHELLS
    return shell and _number("SLURM_PROCID") == 0 and (os.environ.get("SLURM_STEP_ID") == "0" or _has_terminal())


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except (OSError, AttributeError):  # Windows has neither
        return False
    return True


def _plain() -> tuple[int, int | None]:
    """Return the number of processes, and this one's, where something says it."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size(), dist.get_rank()
    world_size = _number("WORLD_SIZE", 1) if "MASTER_ADDR" in os.environ else 1
    if _are_set("RANK"):
        return world_size, _number("RANK")
    if _are_set("NODE_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        return world_size, _number("NODE_RANK") * _number("LOCAL_WORLD_SIZE") + _number("LOCAL_RANK")
    return world_size, None


def _are_set(*names: str) -> bool:
    return all(name in os.environ for name in names)


def _whole_nodes(world_size: int, here: int) -> int:
    """Return the number of nodes, where all may have as many processes as this one; else 0: it is not known."""
    return world_size // here if world_size % here == 0 else 0


def _number(name: str, default: int | None = None) -> int:
    text = os.environ.get(name, "" if default is None else str(default))
    try:
        return int(text)
    except ValueError:
        raise ConfigError(
            f"The environment variable {name} should be a whole number, as the scheduler sets it; it is {text!r}.",
            code="LT720",
        ) from None


def _tasks_here(world_size: int, nodes: int) -> int:
    """Return this node's number of tasks from SLURM_STEP_TASKS_PER_NODE: ``"4(x2),3"``."""
    listed = os.environ.get("SLURM_STEP_TASKS_PER_NODE") or os.environ.get("SLURM_TASKS_PER_NODE", "")
    counts: list[int] = []
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", listed):
        counts += [int(count)] * int(times or 1)
    node = _number("SLURM_NODEID", 0)
    return counts[node] if node < len(counts) else max(1, world_size // nodes)


def _lsf_hosts() -> list[str]:
    """Return the hosts of an LSF job's tasks, without the launch node."""
    path = Path(os.environ.get("LSB_DJOB_RANKFILE", ""))
    listed = path.read_text("utf-8") if path.is_file() else os.environ.get("LSB_HOSTS", "")
    return listed.split()[1:]


def _address(guess: str) -> str:
    """Return MASTER_ADDR where it is set, else ``guess``.

    Raises:
        ConfigError: when neither says it.
    """
    address = os.environ.get("MASTER_ADDR", guess)
    if not address:
        raise ConfigError(
            "This job spans several nodes, and nothing says where rank 0 runs. Set MASTER_ADDR to its host name (and "
            "MASTER_PORT to a free port) for all processes.",
            code="LT721",
        )
    return address


def _port(job: str) -> int:
    """Return MASTER_PORT where it is set, else a port that all processes of the job compute alike."""
    return _number("MASTER_PORT", _PORTS[zlib.crc32(job.encode()) % len(_PORTS)])
