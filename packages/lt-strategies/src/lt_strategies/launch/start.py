"""Checks of a launcher before it starts ranks, and the call of a rank's function under supervision."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from lt_core.errors import ConfigError
from lt_core.launcher import RunResult
from lt_core.ranks import Ranks
from lt_strategies.job import rank_client
from lt_strategies.launch.self_watch import SelfWatch


def must_start(strategy: Ranks) -> bool:
    """Return whether the other ranks of this strategy have yet to be started."""
    return strategy.world_size > 1 and not strategy.environment.processes_exist and rank_client() is None


def run_here(fn: Callable[..., RunResult], args: tuple[Any, ...], strategy: Ranks) -> RunResult:
    """Call ``fn(*args)`` in this rank's process; the job's supervisor gets its error."""
    mine = rank_client()
    if mine is not None:
        return mine.run(fn, args, strategy)
    try:
        return (
            fn(*args) if strategy.world_size == 1 else (SelfWatch.around or SelfWatch(strategy)).run(fn, args, strategy)
        )
    except Exception as error:
        if "TORCHELASTIC_ERROR_FILE" in os.environ:
            _write_error_file(error)
        raise


def cores_per_rank(local_world_size: int) -> int:
    """Return how many threads each of ``local_world_size`` processes may use for arithmetic."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // local_world_size)


def need_one_node(strategy: Ranks, launcher: str) -> None:
    """Refuse to start processes on other machines: that is torchrun's and the cluster's part.

    Raises:
        ConfigError: when more than one node is asked for.
    """
    nodes = strategy.num_nodes
    if nodes > 1:
        local = strategy.world_size // nodes
        raise ConfigError(
            f"num_nodes={nodes}: launcher {launcher!r} starts processes on this machine only, and no environment "
            f"(torchrun, SLURM, MPI...) was found. Start the script on each node by 'torchrun --nnodes={nodes} "
            f"--nproc-per-node={local} --rdzv-backend=c10d --rdzv-endpoint=HOST:PORT SCRIPT', or by srun.",
            code="LT702",
        )


def _write_error_file(error: Exception) -> None:
    """Report the error to torchrun's agent, for its report of the first failure."""
    from torch.distributed.elastic.multiprocessing.errors import get_error_handler

    handler = get_error_handler()
    handler.initialize()
    handler.record_exception(error)
