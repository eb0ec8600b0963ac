"""Signals in a loader's worker: the run heeds them, stops at a boundary and then ends its workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader

_TELLS_SENDER = hasattr(signal, "sigwaitinfo")  # not on macOS and Windows, whose workers end by anybody's SIGTERM
_TERM = {signal.SIGTERM}
_HEEDED = [getattr(signal, name) for name in ("SIGINT", "SIGUSR1", "SIGHUP") if hasattr(signal, name)]
_HEEDED += _TERM if _TELLS_SENDER else ()


@contextmanager
def sigterm_blocked(loader: DataLoader[Any]) -> Iterator[None]:
    """Have the workers that are started here begin with SIGTERM blocked, and so all threads that they make.

    Not by a forkserver: it may be started here, and processes of the user's own would be born from it.
    """
    context: Any = loader.multiprocessing_context or multiprocessing
    if not (_TELLS_SENDER and loader.num_workers) or context.get_start_method() == "forkserver":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _TERM)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_signals_to_run() -> None:
    """Have this worker go on when a signal reaches the whole group: of ``timeout``, a scheduler, Ctrl-C.

    A SIGTERM of its parent ends it, and anybody's when the parent is gone. Only ``sigwaitinfo`` tells the sender, and
    it takes signals that are blocked; subprocesses would inherit that, so they are started without. Handlers that are
    the user's stay, but for the SIGTERM of a process that was forked: torch's own has replaced it.
    """
    for number in _HEEDED:
        if number in _TERM or signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _go_on)  # SIG_IGN would be inherited by subprocesses
            if hasattr(signal, "siginterrupt"):
                # Python sets handlers to interrupt system calls, and C libraries that read files may not try again
                signal.siginterrupt(number, False)
    if not _TELLS_SENDER:
        return
    import _posixsubprocess  # Windows has none

    signal.pthread_sigmask(signal.SIG_BLOCK, _TERM)
    threading.Thread(target=_await_parent, daemon=True, name="lt-sigterm").start()
    os.register_at_fork(after_in_child=_restore_defaults)
    # functions of register_at_fork do not run for these; subprocess keeps a reference of its own to fork_exec
    for module, name in (
        *((os, "posix_spawn"), (os, "posix_spawnp"), (os, "system")),
        *((_posixsubprocess, "fork_exec"), (subprocess, "_fork_exec")),
    ):
        setattr(module, name, _unblocked(getattr(module, name)))
    respect_handler()


def respect_handler() -> None:
    """Let SIGTERM reach a handler of the user's, which ``worker_init_fn`` may have set."""
    if _TELLS_SENDER and signal.getsignal(signal.SIGTERM) is not _go_on:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _TERM)


def _go_on(number: int, frame: FrameType | None) -> None:
    """Do nothing."""


def _await_parent() -> None:
    parent: Any = multiprocessing.parent_process()
    while True:
        sender = signal.sigwaitinfo(_TERM).si_pid
        if sender == parent.pid or not parent.is_alive():
            os._exit(0)  # as torch's workers: another status would be an error in the parent


def _restore_defaults() -> None:
    for number in _HEEDED:
        if signal.getsignal(number) is _go_on:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TERM)


def _unblocked(start: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        before = signal.pthread_sigmask(signal.SIG_UNBLOCK, _TERM)
        try:
            return start(*args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    return call
