"""Launchers that run the function in new processes of this one: spawned or forked. This process supervises them."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from lt_core.errors import ConfigError, RankError
from lt_core.launcher import Launcher, RunResult, end_with_parent
from lt_core.ranks import Ranks
from lt_core.seed import capture_generators, reset_seed, restore_generators
from lt_strategies import group
from lt_strategies.environments import LaunchedEnvironment
from lt_strategies.job import RankClient, made_folder
from lt_strategies.launch.start import cores_per_rank, must_start, need_one_node, run_here
from lt_strategies.watch.page import KILL
from lt_strategies.watch.watch import INTERRUPTED, POLL, Verdict, Watch

__all__ = ["ForkLauncher", "ForkserverLauncher", "SpawnLauncher"]


class SpawnLauncher(Launcher):
    """Runs each launch in new Python processes, one for each rank; all that the run needs is pickled.

    Attributes:
        start_method: of :mod:`multiprocessing`.
    """

    name = "spawn"
    returns_results = True
    start_method = "spawn"

    def launch(self, fn: Callable[..., RunResult], *args: Any, strategy: Ranks) -> RunResult:
        if not must_start(strategy):
            return run_here(fn, args, strategy)
        need_one_node(strategy, self.name)
        self.check()
        folder = made_folder(strategy.world_size)
        try:
            return self._supervise(folder, self.payload(fn, args, strategy), strategy)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def check(self) -> None:
        """Raise where this start method cannot work."""

    def payload(self, fn: Callable[..., RunResult], args: tuple[Any, ...], strategy: Ranks) -> Any:
        """Return the arguments and random generators for the ranks, in one pickle so that shared objects stay shared.

        Raises:
            ConfigError: when something in it cannot be pickled.
        """
        try:
            return pickle.dumps((fn, args, strategy, capture_generators()))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"launcher {self.name!r} pickles module, data and callbacks for its processes, and that failed: "
                f"{error}. Define classes and functions at the top level of a file and drop open files and lambdas, "
                "or take strategy='ddp' (runs the script once more) or 'ddp_fork'.",
                code="LT716",
            ) from error

    def _supervise(self, folder: str, payload: Any, strategy: Ranks) -> RunResult:
        world_size = strategy.world_size
        group.leave_group()  # of a run on one rank before, which forked ranks would take for theirs
        context: Any = multiprocessing.get_context(self.start_method)
        processes = [
            context.Process(target=_work, args=(folder, rank, world_size, payload), name=f"lt-rank-{rank}")
            for rank in range(world_size)
        ]
        with _threads_for(world_size):
            for process in processes:
                process.start()
        members = {rank: _Spawned(process) for rank, process in enumerate(processes)}
        watch = Watch(folder, members, world_size, getattr(strategy, "step_deadline", 600.0))

        def forward(number: int, _frame: Any) -> None:
            for member in members.values():
                member.send(number)

        with RankClient.handling(("SIGTERM", "SIGHUP", "SIGUSR1"), forward):  # the ranks end at a step's end and save
            try:
                self._wait(watch)
            except BaseException:
                forward(KILL, None)
                raise
            finally:
                for process in processes:
                    process.join()
        if not (Path(folder) / "result").exists():
            raise RankError("All ranks ended, but rank 0 left no result.", code="LT719")
        return _load(Path(folder) / "result")  # type: ignore[no-any-return]

    def _wait(self, watch: Watch) -> None:
        interrupts, over, verdict = 0, False, None
        while not over and verdict is None:
            try:
                over = watch.all_ended()
                if (verdict := watch.look()) is not None:
                    watch.end(verdict)
                time.sleep(POLL)
            except KeyboardInterrupt:
                interrupts += 1  # at the first the ranks stop at a step's end, at the second immediately
                for member in watch.members.values():
                    member.send(signal.SIGINT)
                if interrupts > 2:
                    raise
        if verdict is not None:
            raise _original(watch.folder, verdict)  # a rank's KeyboardInterrupt is none of this process's


_OF_A_FORK = ("autograd's threading in combination with fork", "CUDA error: initialization error")  # in torch's words


class ForkLauncher(SpawnLauncher):
    """Forks this process for each rank: nothing is pickled, works in notebooks. Not after CUDA was used here."""

    name = "fork"
    start_method = "fork"

    def check(self) -> None:
        if not hasattr(os, "fork"):
            raise ConfigError("launcher 'fork' needs fork(), which this platform lacks. Take 'spawn'.", code="LT717")
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            raise ConfigError(
                "launcher 'fork' cannot be used after CUDA was used in this process (a tensor on a GPU, "
                "torch.cuda.get_device_name()...): the forked ranks could not use it. Restart the notebook and touch "
                "no GPU before fit; in a script take strategy='ddp'.",
                code="LT718",
            )

    def payload(self, fn: Callable[..., RunResult], args: tuple[Any, ...], strategy: Ranks) -> Any:
        gc.collect()  # where threads can be joined; see _work
        return fn, args, strategy, capture_generators()


class ForkserverLauncher(SpawnLauncher):
    """Like spawn, but from a server process that has imported nothing yet."""

    name = "forkserver"
    start_method = "forkserver"


class _Spawned:
    """A process of multiprocessing as the watcher sees it."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process

    def status(self) -> int | None:
        return self._process.exitcode

    def send(self, number: int) -> None:
        if self._process.exitcode is None and self._process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)


# ---- in a rank's process ---------------------------------------------------------------------------------------------


def _work(folder: str, rank: int, world_size: int, payload: Any) -> None:
    """Be one rank: run the function and leave its result, or its error, in the job's folder."""
    end_with_parent()
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # Ctrl-C reaches the parent, which hands it on once
    mine = RankClient(folder, rank, world_size).take()
    try:
        if isinstance(payload, tuple):  # forked: no thread of the parent is here, of its OpenMP pool or its groups
            torch.set_num_threads(1)
            gc.freeze()  # a group that is collected joins its threads
        else:
            reset_seed()  # of the devices too, which a process just started has not opened
            payload = pickle.loads(payload)
        fn, args, strategy, generators = payload
        restore_generators(generators)  # Python seeds its own anew in a fork too
        strategy.join(LaunchedEnvironment.of(mine))
        result = run_here(fn, args, strategy)
        if rank == 0:
            _save(Path(folder) / "result", result)
    except BaseException as error:
        if mine.is_fork:
            raise
        if any(words in str(error) for words in _OF_A_FORK):
            error.add_note(
                "Torch cannot compute gradients in a fork of this process: its autograd has threads (of a GPU, or of "
                "FSDP), or it started CUDA's runtime (torch.cuda.is_available() does, unless the environment has "
                "PYTORCH_NVML_BASED_CUDA_CHECK=1). Restart the notebook and start with the ranks, or take "
                "strategy='ddp_spawn'. [LT727]"
            )
        mine.report(error)
        with contextlib.suppress(Exception):
            _save(Path(folder) / f"error_{rank}", error)
        group.leave_group(failed=True)
        for stream in sys.stdout, sys.stderr:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        # not by raising: multiprocessing would print the error beside the watcher's message
        os._exit(1)
    group.leave_group()
    mine.leave()


def _save(path: Path, value: Any) -> None:
    draft = path.with_suffix(".draft")
    with draft.open("wb") as file:
        # torch's default, protocol 2, stores exceptions under the names of Python 2: ConnectionError would be OSError
        torch.save(value, file, pickle_protocol=pickle.HIGHEST_PROTOCOL)
    draft.replace(path)


# ---- in the parent ---------------------------------------------------------------------------------------------------


def _load(path: Path) -> Any:
    """Read a rank's object from the job's folder, which only this user can write."""
    return torch.load(path, map_location="cpu", weights_only=False)


def _original(folder: Path, verdict: Verdict) -> BaseException:
    """Return the exception of the rank that failed first, or a RankError where it left none."""
    if verdict.text == INTERRUPTED:
        return KeyboardInterrupt()
    error: BaseException | None = None
    with contextlib.suppress(Exception):
        error = _load(folder / f"error_{verdict.rank}")
    if not isinstance(error, Exception):
        return RankError(verdict.text, code="LT701")
    error.__cause__ = _RemoteError(verdict.text)
    return error


class _RemoteError(Exception):
    """Shows the traceback of another process."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@contextmanager
def _threads_for(world_size: int) -> Iterator[None]:
    """Let processes started here share the cores, unless the user said how many threads they may use."""
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = str(cores_per_rank(world_size))
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]
