"""Keeps what user code prints from tearing a live progress bar."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from lt_core.terminal import LossyStream


class StdoutGuard:
    """While it is open, text for stdout and stderr first clears the bar, then is written as whole lines above it.

    ``sys.stdout``, ``sys.stderr`` and the streams of logging handlers that point to them are replaced for the time of a
    run; a process forked meanwhile (a loader's worker) writes as if nothing were there.

    Args:
        clear: takes the bar off the screen.
        redraw: may put it back right away; otherwise the bar's next turn does.
    """

    def __init__(self, clear: Callable[[], None], redraw: Callable[[], None]) -> None:
        self._clear = clear
        self._redraw = redraw
        self._replaced: list[tuple[str, TextIO, _Guarded]] = []
        self._logs = LogRedirect()

    def open(self) -> None:
        if self._replaced:
            return
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if not LossyStream(stream).isatty():
                continue
            guarded = _Guarded(stream, self._clear, self._redraw)
            self._replaced.append((name, stream, guarded))
            setattr(sys, name, guarded)
            self._logs.open(stream, guarded)

    def settle(self) -> None:
        """End a line that was left open by a prompt, so that the bar gets a line of its own."""
        for _, _, guarded in self._replaced:
            guarded.settle()

    def close(self) -> None:
        """Give the streams back; one that somebody else has replaced meanwhile is left alone."""
        self._logs.close()
        for name, stream, guarded in self._replaced:
            guarded.finish()
            if getattr(sys, name) is guarded:
                setattr(sys, name, stream)
        self._replaced = []


class LogRedirect:
    """Has logging handlers that hold an old stream write to a new one, until it is closed."""

    def __init__(self) -> None:
        self._moved: list[tuple[logging.StreamHandler[Any], Any]] = []

    def open(self, old: Any, new: Any) -> None:
        """Move every handler on ``old`` to ``new``."""
        for logger in [logging.root, *logging.root.manager.loggerDict.values()]:
            for handler in getattr(logger, "handlers", ()):
                if isinstance(handler, logging.StreamHandler) and handler.stream is old and old is not new:
                    handler.setStream(new)
                    self._moved.append((handler, old))

    def close(self) -> None:
        for handler, old in self._moved:
            handler.setStream(old)
        self._moved = []


class _Guarded:
    """A text stream that holds back the unfinished last line until it is flushed or ended."""

    def __init__(self, stream: TextIO, clear: Callable[[], None], redraw: Callable[[], None]) -> None:
        self._stream = stream
        self._clear = clear
        self._redraw = redraw
        self._held = ""
        self._open_line = False
        self._process = os.getpid()

    def write(self, text: str) -> int:
        if os.getpid() != self._process:
            return self._stream.write(text)
        whole, newline, self._held = (self._held + text).rpartition("\n")
        if newline:
            self._clear()
            self._stream.write(whole + newline)
            self._open_line = False
            self._redraw()
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self._held and os.getpid() == self._process:  # a prompt: shown right away, on a line of its own
            self._clear()
            self._stream.write(self._held)
            self._held, self._open_line = "", True
        self._stream.flush()

    def settle(self) -> None:
        if self._open_line:
            LossyStream(self._stream).write("\n")
            self._open_line = False

    def finish(self) -> None:
        if self._held:
            LossyStream(self._stream).write(self._held)
            self._held = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def raw_stdout() -> TextIO:
    """Return what ``sys.stdout`` is without a guard."""
    stream: Any = sys.stdout
    while isinstance(stream, _Guarded):
        stream = stream._stream
    return stream  # type: ignore[no-any-return]
