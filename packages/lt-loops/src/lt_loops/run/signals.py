"""Signals: a handler only sets a flag, the loop stops at a batch boundary."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, NoReturn

from lt_core.callback import Callback
from lt_core.launcher import is_interactive
from lt_core.strategy import Strategy
from lt_loops.run.stopping import Stopping

_NAMES = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP")
_HANDLED = {getattr(signal, name): name for name in _NAMES if hasattr(signal, name)}


class Signals:
    """Handles SIGINT, SIGTERM, SIGUSR1 and SIGHUP while a run goes on; before and after they are the user's.

    The first one asks the loop to stop at the next boundary, where a checkpoint is written and all hooks of the end
    run; several ranks agree on the boundary (see ``stopping.py``). The first Ctrl-C says so immediately, for a step may
    take minutes; a second one raises ``KeyboardInterrupt`` there and then.
    """

    def __init__(self, stopping: Stopping, strategy: Strategy, stage: str, callbacks: list[Callback]) -> None:
        """Note who hears of a signal, and what the first Ctrl-C says; :meth:`install` sets the handlers."""
        self._stopping, self._strategy, self._stage, self._callbacks = stopping, strategy, stage, callbacks
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        """Set the handlers, in the main thread only (Python allows it nowhere else)."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _HANDLED:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._before[number] = signal.signal(number, self._handle)

    def restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first = self._stopping.signal is None
        if not first and number == signal.SIGINT:
            raise KeyboardInterrupt
        if first and number == signal.SIGINT and self._strategy.rank == 0:
            saves = self._stage == "fit" and any(callback.role == "checkpoint" for callback in self._callbacks)
            then = " A checkpoint is saved there." if saves else ""
            _say_now(f"lt: Ctrl-C: {self._stage} ends after this batch.{then} Press Ctrl-C again to stop now.")
        self._stopping.receive_signal(number)


def _say_now(text: str) -> None:
    """Write a line to standard error from within a signal handler.

    The handler may have interrupted a write to the same stream, whose buffer then refuses another one: the line goes to
    the file descriptor. A notebook's stream is no file, and takes lines at any time.
    """
    with contextlib.suppress(Exception):  # a closed terminal keeps no run from ending well
        if "IPython" in sys.modules and is_interactive() and multiprocessing.parent_process() is None:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
        else:
            start = "\n" if os.isatty(2) else ""  # after a bar, or the ^C that a terminal shows
            os.write(2, f"{start}{text}\n".encode())


def exits_process(on_signal: str) -> bool:
    """Return whether a run ended by a signal ends the script: not in an interactive session."""
    return on_signal == "exit" and not (is_interactive() or sys.flags.interactive)


def end_script(number: int) -> NoReturn:
    """End the script with the status that shells know of a signal; pytest as Ctrl-C does, with its report of tests."""
    if "pytest" in sys.modules and "PYTEST_CURRENT_TEST" in os.environ and multiprocessing.parent_process() is None:
        # SystemExit would fail this test, and the next one would run
        raise KeyboardInterrupt(f"{_HANDLED[number]}. A test that sends it itself takes Trainer(on_signal='return').")
    raise SystemExit(128 + number)
