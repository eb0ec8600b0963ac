"""Preparing a folder once, by the process that comes first: of several jobs on a machine, or the same job again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from lt_core.errors import DataError
from lt_core.files.atomic_file import write_atomically

__all__ = ["prepare_once"]

_LOCK, _MARKER = ".lt-prepare.lock", ".lt-prepared.json"
_POLL_SECONDS = 0.1


@contextmanager
def prepare_once(path: str | os.PathLike[str], key: str = "", *, wait: bool = True) -> Iterator[bool]:
    """Return a context that says whether ``path`` is still to be prepared; one process at a time is inside.

    ::

        def prepare_data(self):
            with prepare_once("data/mnist", key="v1") as needed:
                if needed:
                    download("data/mnist")

    When the block ends without an exception, the folder is marked as finished with ``key``; a later process with
    the same key gets False, with another key True again. The lock belongs to the process: it is gone with it.

    Args:
        path: a folder; made where it is missing.
        key: dependencies of the preparation (a version, settings), as text.
        wait: whether to wait while another process prepares, however long that takes.

    Raises:
        DataError: when the folder cannot be written, or with ``wait=False`` while another process is inside.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK).open("a+b")
    except OSError as error:
        if _is_finished(folder, key):  # somebody else's folder, prepared already
            yield False
            return
        raise DataError(
            f"prepare_once({str(folder)!r}): expected a folder that can be written, got {type(error).__name__}: "
            f"{error}.",
            code="LT432",
        ) from error
    with lock:
        _acquire(lock, folder, wait)
        try:
            needed = not _is_finished(folder, key)
            yield needed
            if needed:
                marker = json.dumps({"key": key, "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z")}).encode()
                write_atomically(folder / _MARKER, lambda file: file.write(marker))
        finally:
            _lock(lock, held=False)


def _is_finished(folder: Path, key: str) -> bool:
    try:
        marker = json.loads((folder / _MARKER).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(marker, dict) and marker.get("key") == key


def _acquire(lock: IO[bytes], folder: Path, wait: bool) -> None:
    while True:
        try:
            return _lock(lock)
        except OSError:
            if not wait:
                raise DataError(
                    f"prepare_once({str(folder)!r}, wait=False): another process is preparing this folder. Try again "
                    "later, or wait for it with wait=True.",
                    code="LT432",
                ) from None
        time.sleep(_POLL_SECONDS)


def _lock(lock: IO[bytes], *, held: bool = True) -> None:
    """Lock a file or raise; on Windows it is unlocked by hand, elsewhere when it is closed."""
    if os.name == "nt":
        import msvcrt

        windows: Any = msvcrt
        lock.seek(0)
        windows.locking(lock.fileno(), windows.LK_NBLCK if held else windows.LK_UNLCK, 1)
    elif held:
        import fcntl

        fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
