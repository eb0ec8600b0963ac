"""The launcher that runs the user's script once more for every further rank."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lt_core.errors import ConfigError
from lt_core.launcher import Launcher, RunResult, is_interactive
from lt_core.ranks import Ranks
from lt_strategies import group
from lt_strategies.environments import LaunchedEnvironment
from lt_strategies.job import RankClient, made_folder
from lt_strategies.launch.start import cores_per_rank, must_start, need_one_node, run_here
from lt_strategies.watch.page import RUNNING, STEPPING, is_alive, read_report
from lt_strategies.watch.script import command as watch_command
from lt_strategies.watch.watch import POLL, report, signal_name

__all__ = ["ScriptLauncher"]


class ScriptLauncher(Launcher):
    """Starts the command of this process again for ranks 1, 2...; this process is rank 0. The default for scripts.

    The whole script runs on each rank, so every rank must make the same calls of the Trainer; the processes live until
    the script ends. A small watcher process holds them, see :mod:`lt_strategies.watch`.
    """

    name = "script"
    returns_results = False

    def launch(self, fn: Callable[..., RunResult], *args: Any, strategy: Ranks) -> RunResult:
        if must_start(strategy):
            if os.name == "nt":
                raise ConfigError(
                    "launcher 'script' does not work on Windows: take strategy='ddp_spawn'.", code="LT722"
                )
            need_one_node(strategy, self.name)
            _start_ranks(strategy)
        return run_here(fn, args, strategy)


def _start_ranks(strategy: Ranks) -> None:
    command, world_size = _command(), strategy.world_size
    folder = made_folder(world_size)
    threads = {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(cores_per_rank(world_size))}
    order = {
        "command": command,
        "deadline": getattr(strategy, "step_deadline", 600.0),
        "environment": {"LT_JOB": folder, "LT_WORLD_SIZE": str(world_size), **threads},
        "folder": folder,
        "pid": os.getpid(),
        "world_size": world_size,
    }
    mine = RankClient(folder, 0, world_size).take()
    sys.stdout.flush()
    # the watcher reads the end of this pipe as the end of this process, however that comes
    process = subprocess.Popen(watch_command(order), stdin=subprocess.PIPE)
    if threads:
        torch.set_num_threads(int(threads["OMP_NUM_THREADS"]))
    atexit.register(_wait_for_ranks, mine, process)
    _report_uncaught(mine)
    strategy.join(LaunchedEnvironment.of(mine))


def _wait_for_ranks(mine: RankClient, process: subprocess.Popen[bytes]) -> None:
    """At the end of the script, wait for the other ranks' ends; fail with them."""
    if mine.is_fork:
        return
    group.leave_group()
    mine.leave()
    assert process.stdin is not None
    process.stdin.close()
    status = process.wait()
    failed = status > 0 or (status < 0 and _unwatched(mine, -status))
    if not failed and mine.one_process:
        mine.one_process.settle()
    shutil.rmtree(mine.folder, ignore_errors=True)
    if failed and not mine.heard:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # the only way to set an exit status while Python shuts down


def _unwatched(mine: RankClient, number: int) -> bool:
    """Say that the watcher was killed, wait for the ranks that it held, and return whether one of them failed."""
    report(
        f"The process that watches the ranks of this job was killed ({signal_name(number)}; often: out of memory). "
        "Since then nobody has looked after them; this script waits for their ends. [LT775]"
    )
    failed = False
    for rank in range(1, mine.world_size):
        while is_alive(mine.line(rank).pid):
            time.sleep(POLL)
        found = read_report(mine.folder, rank)
        if found is not None or mine.line(rank).state in (RUNNING, STEPPING):
            report(f"Rank {rank} failed: {'it is gone' if found is None else found['error']}.")
            failed = True
    return failed


def _report_uncaught(mine: RankClient) -> None:
    """Let the watcher know when the script itself raises outside of a run."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if mine.folder.exists() and not mine.heard and not mine.is_fork:
            error.__traceback__ = trace
            mine.report(error)
        mine.heard = True
        before(kind, error, trace)

    sys.excepthook = hook


def _command() -> list[str]:
    """Return the command that runs this script once more.

    Raises:
        ConfigError: where there is no script: an interactive session, standard input, pytest.
    """
    given = list(sys.orig_argv[1:])
    main = sys.modules["__main__"]
    in_pytest = "PYTEST_CURRENT_TEST" in os.environ and "_pytest" in sys.modules
    script = getattr(main, "__file__", None)
    runs_code = "-c" in given or getattr(main, "__spec__", None) is not None
    if in_pytest or is_interactive() or (script is None and not runs_code):
        where = "pytest" if in_pytest else "a notebook, an interactive session or standard input"
        raise ConfigError(
            f"launcher 'script' starts the user's script once more for each rank, but this is {where}. "
            "Take strategy='ddp_fork' (or 'ddp_notebook'), strategy='ddp_spawn', or start a script by torchrun.",
            code="LT703",
        )
    if script is not None and getattr(main, "__spec__", None) is None:
        name = Path(script).name
        index = next((i for i, arg in enumerate(given) if Path(arg).name == name and not arg.startswith("-")), None)
        if index is not None:
            given[index] = str(Path(script).resolve())  # the script may have changed its folder since it started
    return [sys.executable, *given]
