"""Launchers start the processes of a job."""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from lt_core.interface import Interface
from lt_core.ranks import Ranks

__all__ = ["Launcher", "RunResult", "end_with_parent", "is_interactive"]


@dataclass(kw_only=True, slots=True)
class RunResult:
    """The results of a run, as plain data that can cross a process boundary.

    Attributes:
        outputs: the user's result: fit's history and newest file, a list of dicts for validate and
            test, predictions.
        position: the counters where the run ended (see ``lt_loops.state.position.Position``).
        metrics: ``callback``, ``logged`` and ``progress_bar`` metrics as numbers, by kind and name.
        status: ``"finished"``, ``"interrupted"`` or ``"failed"``.
        stop_reason: why the run ended, as a short text.
        signal: the one that ended it; None where none did.
        save_error: why the newest state that was to be saved is not on disk; empty where it is.
        callbacks: state of each callback by its ``state_key``; only filled where the run was in another process.
        weights: the module's state dict, on the CPU; only filled where the run was in another process.
        beyond_weights: what a state dict leaves out of the module: modes, ``requires_grad``, other buffers; only filled
            where the run was in another process.
        loggers: state of each logger, in order; only filled where the run was in another process.
        setup_draws: where the setups of datamodule and module began to draw; only filled where the run was in another
            process.
    """

    outputs: Any = None
    position: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: str = "finished"
    stop_reason: str = ""
    signal: int | None = None
    save_error: str = ""
    callbacks: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Tensor] | None = None
    beyond_weights: dict[str, Any] = field(default_factory=dict)
    loggers: list[dict[str, Any]] = field(default_factory=list)
    setup_draws: dict[str, Any] = field(default_factory=dict)


class Launcher(Interface):
    """Runs a function on every rank of a job; the default calls it once, here.

    A launcher that starts processes gives each its :class:`~lt_core.environment.Environment` by
    ``strategy.join(environment)`` before it calls ``fn``, and must pickle ``fn``, ``args`` and ``strategy`` together,
    so that the strategy inside ``args`` is the same object. Where nothing is to be started (one process, or
    ``strategy.environment.processes_exist``) it calls ``fn`` right here, and errors come out as they are.

    Each rank begins with the random generators of this process (``lt_core.seed``), or a seeded script does not repeat.

    It may be used again, after a failure too, and leaves this process's variables, folder and random generators as they
    were. ``lt_testing.LauncherKit`` tests these promises.

    Attributes:
        returns_results: True where ranks run in processes that end with the launch, so that the caller's process gets
            its results by :class:`RunResult` only. False where the caller's process is rank 0 itself.
    """

    name: str = "here"
    returns_results: bool = False

    def launch(self, fn: Callable[..., RunResult], *args: Any, strategy: Ranks) -> RunResult:
        """Call ``fn(*args)`` once on each rank and return rank 0's result, its tensors on the CPU.

        With :attr:`returns_results` no rank runs any more when it returns or raises; otherwise none outlives the
        script. A failure on one rank ends all of them, and so does the death of the process that launched them.

        Raises:
            Exception: whatever ``fn`` raised on the rank that failed first, with all of its text where it cannot be
                pickled. Where this process is rank 0 itself, a RankError may name another rank's.
            RankError: when a process died without an exception; names its rank and the signal, or the exit status.
        """
        return fn(*args)


def is_interactive() -> bool:
    """Return whether this is an interactive session: a notebook, IPython, Python's prompt.

    There is no script then that could be started once more, or that may be ended.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return hasattr(sys, "ps1") or (shell is not None and shell() is not None)


def end_with_parent() -> None:
    """End this process, a rank or a loader's worker, when the one that started it by :mod:`multiprocessing` is gone."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        # sys.exit would end this thread alone, and the main one may hang in a collective
        os._exit(1)

    threading.Thread(target=wait, daemon=True, name="lt-parent").start()
