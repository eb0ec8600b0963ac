"""Terminal output of a run: lines that never end it, short paths, notices of slow work."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Any

__all__ = ["SLOW", "LossyStream", "drop_unwritten", "say", "short_path", "visible", "waiting"]

SLOW = 5.0
"""Seconds of waiting before a notice is printed."""


class LossyStream:
    """A text stream that loses text on a closed pipe or a full disk, since no run may end by that.

    Characters that its encoding lacks are written as escapes.
    """

    def __init__(self, stream: Any) -> None:
        """Write to ``stream``; None, as ``sys.stdout`` may be, takes everything."""
        self._stream = stream

    def write(self, text: str) -> int:
        self._guarded(self._write, text)
        return len(text)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except UnicodeEncodeError as error:
            self._stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))

    def flush(self) -> None:
        self._guarded(getattr(self._stream, "flush", None))

    def _guarded(self, call: Any, *args: Any) -> None:
        if self._stream is not None:
            try:
                call(*args)
            except (OSError, ValueError):  # the latter: it is closed
                drop_unwritten(self._stream)

    def isatty(self) -> bool:
        stream = self._stream
        return stream is not None and not getattr(stream, "closed", False) and bool(stream.isatty())

    def __getattr__(self, name: str) -> Any:
        if name == "_stream":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._stream, name)


def drop_unwritten(stream: Any) -> None:
    """Drop a stream's unwritten buffer when its file takes no more: Python's exit would fail to write it again."""
    with suppress(OSError, ValueError, AttributeError), Path(os.devnull).open("w") as null:
        number = stream.fileno()
        kept = os.dup(number)
        try:
            os.dup2(null.fileno(), number)
            stream.flush()
        finally:
            os.dup2(kept, number)
            os.close(kept)


def say(*texts: object, **kwargs: Any) -> None:
    """Print, as ``print`` does; text that stdout does not take is lost."""
    stream = LossyStream(sys.stdout)
    print(*texts, **{"file": stream, **kwargs})  # noqa: T201  (its purpose)
    stream.flush()


def short_path(path: str | os.PathLike[str]) -> str:
    """Return the path as seen from the working directory where it lies below it; a URL as it is."""
    text = os.fspath(path)
    with suppress(FileNotFoundError):  # the working directory is gone
        here, absolute = Path.cwd(), Path(text).absolute()
        return str(absolute.relative_to(here)) if "://" not in text and absolute.is_relative_to(here) else text
    return text


_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Return a text with the characters that command a terminal written out: names in files are anybody's."""
    return _COMMANDS.sub(lambda found: repr(found[0])[1:-1], text)


@contextmanager
def waiting(what: str, *, says: bool = True, after: float = SLOW) -> Iterator[None]:
    """Print a notice once the block has lasted ``after`` seconds, and its duration when it is over.

    Args:
        what: such as ``"Digits.prepare_data()"``.
        says: False says nothing, as ranks other than 0 should.
        after: seconds.
    """
    if not says:
        yield
        return
    begun = monotonic()
    timer = Timer(after, say, [f"Waiting for {what} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
    if monotonic() - begun >= after:
        say(f"{what} took {monotonic() - begun:.0f} s.")
