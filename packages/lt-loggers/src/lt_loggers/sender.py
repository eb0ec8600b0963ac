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
    """Makes calls one after another, in a thread that lives as long as there are any.

    Args:
        before: an earlier sender, whose calls come first.

    Attributes:
        rows: handed over and not sent yet.
        thread: makes the calls; None while there are none.
        process: its own; a fork has none of its calls, and takes a new one.
        heard: when the server last answered, or was asked after a rest; seconds, monotonic. Later than now where an
            answer takes longer.
    """

    def __init__(self, before: Sender | None = None) -> None:
        self.rows: list[Row] = []
        self.process, self.heard = os.getpid(), monotonic()
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._lock = Lock()
        self.thread: Thread | None = None
        self._before = None if before is None else before.thread

    def put(self, call: Callable[[], Any]) -> Future[Any]:
        """Have ``call`` made after all others; return its result to be."""
        future: Future[Any] = Future()
        with self._lock:
            self._calls.append((call, future))
            if self.thread is None:
                self.heard = monotonic()
                self.thread = Thread(target=self._run, daemon=True)
                self.thread.start()
        return future

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
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            self.heard = monotonic()
