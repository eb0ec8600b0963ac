"""Signals: a handler sets a flag, the loop stops at a batch boundary, or where it waits for a batch in vain."""

import _thread
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, NoReturn

from lt_core.data import Feed
from lt_core.errors import DataError
from lt_core.launcher import is_interactive
from lt_loops.run.frame import Run
from lt_loops.run.stopping import Stopping

_NAMES = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP")
_HANDLED = {getattr(signal, name): name for name in _NAMES if hasattr(signal, name)}


_PAUSE = 1.0
"""Seconds between two looks at a wait for a batch that a signal may end."""


class WaitInterrupted(BaseException):
    """Ends a wait for a batch that does not come: the run stops at the boundary before it."""


class Signals:
    """Handles SIGINT, SIGTERM, SIGUSR1 and SIGHUP while a run goes on; before and after they are the user's.

    The first one asks the loop to stop at the next boundary, where a checkpoint is written and all hooks of the end
    run; several ranks agree on the boundary (see ``stopping.py``). The first Ctrl-C says so immediately, for a step may
    take minutes; a second one raises ``KeyboardInterrupt`` there and then.

    A wait for a batch is a boundary as well, once a loader has not given it for a second or two; several ranks go on
    waiting, as they have no boundary in common. From a signal on a worker's death is no error where the process stands,
    but one of the next wait, which ends there. Forks of this process have the handlers of before.
    """

    def __init__(self, run: Run) -> None:
        """Note whose signals they are; :meth:`install` sets the handlers."""
        self._run, self._stopping = run, run.stopping
        self._before: dict[int, Any] = {}
        self._outer: Signals | None = None
        self._restored = threading.Event()
        self._looking = threading.Lock()
        self._looks: int | None = None
        self._waits: tuple[Feed, int] | None = None

    def install(self) -> None:
        """Set the handlers, in the main thread only (Python allows it nowhere else)."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._outer = _installed[-1] if _installed else None
        _installed.append(self)
        taken = {} if self._outer is None else self._outer._before
        for number in _HANDLED:
            if number in taken or signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._before[number] = signal.signal(number, self._handle)

    def restore(self) -> None:
        with self._looking:  # a look sent later would end the process
            self._restored.set()
        self.put_handlers_back()

    def put_handlers_back(self) -> None:
        """Give the signals back; alone in a fork, in which the thread that looks may hold the lock for ever."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
        if self in _installed:
            _installed.remove(self)

    def _handle(self, number: int, frame: FrameType | None) -> bool:
        """Heed a signal; return whether it was only a look. Of a run inside a hook of another, both stop."""
        if self._looks == number:
            self._looks = None
            self._end_wait(frame)
            return True
        if self._outer is not None and self._outer._handle(number, frame):
            return True
        first = self._stopping.signal is None
        if not first and number == signal.SIGINT:
            raise KeyboardInterrupt
        if first and number == signal.SIGINT and self._run.strategy.rank == 0 and self._outer is None:
            then = " A checkpoint is saved there." if self._saves() else ""
            _say_now(f"lt: Ctrl-C: {self._run.stage} ends after this batch.{then} Press Ctrl-C again to stop now.")
        self._stopping.receive_signal(number)
        if first:
            self._ignore_worker_deaths()
            if hasattr(signal, "pthread_kill"):
                _thread.start_new_thread(self._look_at_waits, (number,))
        return False

    def _saves(self) -> bool:
        run = self._run
        begun = run.phase == "train" or run.position.step > 0  # the sanity check changes nothing
        return run.stage == "fit" and begun and any(callback.role == "checkpoint" for callback in run.callbacks)

    def _ignore_worker_deaths(self) -> None:
        """Keep torch's handler from raising wherever the process stands; whoever waits for the worker sees it too."""
        number = getattr(signal, "SIGCHLD", None)
        before = None if number is None else signal.getsignal(number)
        if number is None or not callable(before):
            return

        def handle(number: int, frame: FrameType | None) -> None:
            with contextlib.suppress(RuntimeError):
                before(number, frame)

        self._before[number] = signal.signal(number, handle)

    def _look_at_waits(self, number: int) -> None:
        """Send the main thread, which alone can leave a wait, the signal again and again."""
        while not self._restored.wait(_PAUSE):
            with self._looking:
                if not self._restored.is_set():
                    self._looks = number
                    signal.pthread_kill(threading.main_thread().ident or 0, number)

    def _end_wait(self, frame: FrameType | None) -> None:
        """Raise where the loop has waited for the same batch since the last look."""
        feed = self._run.feed_read_in(frame for frame, _ in traceback.walk_stack(frame))
        before, self._waits = self._waits, None if feed is None else (feed, feed.batches_done)
        if feed is not None and before == self._waits and self._stopping.leaves_wait():
            raise WaitInterrupted


@contextlib.contextmanager
def ended_by_signal(stopping: Stopping, feed_read_in: Callable[[Iterable[FrameType]], Feed | None]) -> Iterator[None]:
    """Leave a loop where a signal is pending and the next batch does not come, as the wait or a worker has ended."""
    try:
        yield
    except WaitInterrupted:
        pass
    except (RuntimeError, DataError) as error:
        frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
        died = "DataLoader worker (pid" in str(error) and feed_read_in(frames) is not None
        if not (died and stopping.signal is not None and stopping.leaves_wait()):
            raise


_installed: list[Signals] = []


def _forget_in_fork() -> None:
    while _installed:
        _installed[-1].put_handlers_back()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_fork)


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
    """Return whether a run ended by a signal ends the script: not in an interactive session, and not in a hook of
    another run, which ends it.
    """
    return on_signal == "exit" and not (is_interactive() or sys.flags.interactive or _installed)


def end_script(number: int) -> NoReturn:
    """End the script with the status that shells know of a signal; pytest as Ctrl-C does, with its report of tests."""
    if "pytest" in sys.modules and "PYTEST_CURRENT_TEST" in os.environ and multiprocessing.parent_process() is None:
        # SystemExit would fail this test, and the next one would run
        raise KeyboardInterrupt(f"{_HANDLED[number]}. A test that sends it itself sets trainer.on_signal = 'return'.")
    sys.exit(128 + number)  # by the name that W&B replaces, to note the status
