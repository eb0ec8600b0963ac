"""The thread that talks to a tracker's server."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Lock, Thread
from time import monotonic
from typing import Any

from lt_loggers.rows import Row


class Sender:
    """Makes the calls of one run, one after another, in a thread that lives as long as there are any.

    Args:
        logger: of the run. Once it serves another run, it has a new ``__dict__``, and calls find this run's in ``run``.
        before: an earlier sender, whose calls come first.

    Attributes:
        run: the logger as the calls see it.
        rows: handed over and not sent yet.
        end: the status at the end of the run, and checkpoints to send then; None before.
        failed: the last call's error that nobody has heard of.
        known_until: when a state was last taken or loaded: rows of a state from before are or were here.
        told: whether it is said that the server is silent.
        thread: makes the calls; None while there are none.
        process: its own; a fork has none of its calls, and takes a new one.
        heard: when the server last answered, or was asked after a rest; seconds, monotonic. Later than now where an
            answer takes longer.
    """

    def __init__(self, logger: object, before: Sender | None = None) -> None:
        self.run: Any = object.__new__(type(logger))
        self.run.__dict__ = logger.__dict__
        self.rows: list[Row] = []
        self.end: tuple[str, list[Any]] | None = None
        self.failed: BaseException | None = None
        self.told, self.known_until = False, 0.0
        self.process, self.heard = os.getpid(), monotonic()
        self._calls: deque[tuple[Callable[[Any], Any], Future[Any]]] = deque()
        self._lock = Lock()
        self.thread: Thread | None = None
        self._before = getattr(before, "thread", None)

    def put(self, call: Callable[[Any], Any]) -> Future[Any]:
        """Have ``call`` made with :attr:`run` after all others; return its result to be."""
        future: Future[Any] = Future()
        with self._lock:
            self._calls.append((call, future))
            if self.thread is None:
                self.heard = monotonic()
                self.thread = Thread(target=self._run, daemon=True)
                self.thread.start()
        return future

    def raise_failure(self) -> None:
        """Raise the last call's error, unless somebody has heard of it."""
        error, self.failed = self.failed, None
        if error is not None:
            raise error

    def silence(self) -> float:
        """Return the seconds for which the server has kept a call waiting."""
        return 0.0 if self.thread is None else monotonic() - self.heard

    def wait(self, future: Future[Any], seconds: float) -> bool:
        """Return whether a call is done, once it is or the server has been silent for ``seconds``."""
        while not future.done() and (left := seconds - self.silence()) > 0:
            wait([future], left)
        return future.done()

    def _run(self) -> None:
        if self._before is not None:
            self._before.join()
        while True:
            with self._lock:
                if not self._calls:
                    self.thread = None
                    return
                call, future = self._calls.popleft()
            try:
                future.set_result(call(self.run))
            except BaseException as error:
                self.failed = error
                future.set_exception(error)
            self.heard = monotonic()
