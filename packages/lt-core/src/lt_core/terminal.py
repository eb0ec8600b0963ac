"""What people read of a run in the terminal: paths, and work that takes long before the first step."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from time import monotonic

__all__ = ["SLOW", "short_path", "waiting"]

SLOW = 5.0
"""Seconds after which a person who waits wants to know for what."""


def short_path(path: str | os.PathLike[str]) -> str:
    """Return the path as seen from the working directory where it lies below it; a URL as it is."""
    text, here = os.fspath(path), Path.cwd()
    absolute = Path(text).absolute()
    return str(absolute.relative_to(here)) if "://" not in text and absolute.is_relative_to(here) else text


@contextmanager
def waiting(what: str, *, says: bool = True, after: float = SLOW) -> Iterator[None]:
    """Print what the block is once it has lasted ``after`` seconds, and how long it took when it is over.

    Args:
        what: such as ``"Digits.prepare_data()"``.
        says: False says nothing, as ranks other than 0 should.
        after: seconds.
    """
    if not says:
        yield
        return
    begun = monotonic()
    timer = Timer(after, _say, [f"Waiting for {what} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
    if monotonic() - begun >= after:
        _say(f"{what} took {monotonic() - begun:.0f} s.")


def _say(text: str) -> None:
    if sys.stdout is not None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
