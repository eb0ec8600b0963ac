"""Files that are complete or not there: written beside their final name, synced, checked, then renamed.

A write that was killed leaves a file ``.<name>.<id>.tmp``, which no reader takes for the real one. Its writer holds a
lock on it while it lives, so that :func:`clean_leftovers` deletes only files without a writer.
"""

import contextlib
import errno
import io
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

from lt_core.errors import CheckpointError

try:
    import fcntl
except ImportError:  # Windows: an open file cannot be deleted there, which protects it as well
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "clean_leftovers",
    "fill",
    "make_folder",
    "name_beside",
    "sync_directory",
    "write_atomically",
    "writing_errors",
]

_LEFTOVER = re.compile(r"^\..+\.[0-9a-f]{12}\.tmp$")
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_BUFFER = 1 << 16
_GRACE = 60.0
"""Seconds for which a leftover link, which cannot hold a lock, is taken for one that is being made."""

_NO_DIRECTORY_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.ENOSYS}


def write_atomically(
    path: str | PathLike[str], write: Callable[[IO[bytes]], object], check: Callable[[IO[bytes]], object] | None = None
) -> None:
    """Write a file so that at any moment either the old one, the new one, or none of the name is there.

    Args:
        path: the final name; its folder is made.
        write: writes the contents to the file that it gets, front to back.
        check: reads the written file, and raises if it is not right.

    Raises:
        OSError: from the file system. The old file is then as it was.
    """
    target = Path(path)
    make_folder(target.parent)
    beside, raw = _new_file(target)
    try:
        with raw:
            fill(raw, write)
            # before the rename: a file system may write the new name first, and a loss of power leaves an empty file
            os.fsync(raw.fileno())
            if check is not None:
                check(raw)
            if fcntl is None:
                raw.close()  # Windows renames no open file
            os.replace(beside, target)  # noqa: PTH105  # tests crash each operation of os
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)  # noqa: PTH108
        raise
    sync_directory(target.parent)


def make_folder(folder: Path) -> None:
    """Make a folder, with those above it, that is still there after a loss of power."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_directory(folder.parent)


def sync_directory(folder: Path) -> None:
    """Have the names in ``folder`` on disk, where the system can sync a folder (not Windows)."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(descriptor)


def clean_leftovers(folder: str | PathLike[str]) -> list[Path]:
    """Delete the leftovers of killed writes in ``folder`` and return them. Files being written stay."""
    if not Path(folder).is_dir():
        return []
    return [entry for entry in sorted(Path(folder).iterdir()) if _LEFTOVER.match(entry.name) and _removed(entry)]


@contextmanager
def writing_errors(path: str | PathLike[str]) -> Iterator[None]:
    """Turn the file system's errors in the block to a :class:`CheckpointError` that names file, cause and way out."""
    try:
        yield
    except OSError as error:
        way_out = _WAYS_OUT.get(error.errno or 0, "Check the folder, or save to another one (dirpath=...)")
        cause = error.strerror or str(error)
        if error.errno == errno.ENOSPC:
            with contextlib.suppress(OSError):
                cause += f" ({shutil.disk_usage(Path(path).parent).free / 2**20:.0f} MiB free)"
        raise CheckpointError(
            f"{path} could not be written: {cause}. {way_out}. A file that was there before is unchanged.",
            code="LT652",
        ) from error


_WAYS_OUT = {
    getattr(errno, "EDQUOT", 0): "Free some of your quota, keep fewer checkpoints (save_top_k), or save elsewhere",
    errno.ENOSPC: "Free some space, keep fewer checkpoints (save_top_k), or save to another disk (dirpath=...)",
    errno.ENAMETOOLONG: "Take a shorter filename or dirpath",
    errno.EISDIR: "A folder has this name: move it, or take another filename",
    errno.ENOTDIR: "A file stands where a folder is needed: move it, or take another dirpath",
}


def name_beside(path: Path) -> Path:
    """Return a new name in the folder of ``path`` that :func:`clean_leftovers` recognizes."""
    name = path.name.encode(errors="surrogateescape")[:200].decode(errors="ignore")  # file systems count bytes
    return path.with_name(f".{name}.{secrets.token_hex(6)}.tmp")


class _Faithful(io.RawIOBase):
    """A file for writers such as ``torch.save`` that lose an error's cause; the first error is kept."""

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw = raw
        self.error: BaseException | None = None
        self.count = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        if self.error is not None:  # the buffer is flushed once more when it is deleted
            return len(data)
        try:
            written = self.raw.write(data)
        except BaseException as error:
            self.error = error
            raise
        self.count += written
        return written


def fill(raw: IO[bytes], write: Callable[[IO[bytes]], object]) -> int:
    """Have ``write`` fill a file; return the number of bytes. The first error of the file itself is raised."""
    faithful = _Faithful(raw)
    buffered = io.BufferedWriter(faithful, _BUFFER)  # most pieces of an archive are a few bytes
    try:
        write(buffered)
        buffered.flush()
    except Exception as error:
        raise faithful.error or error from None
    if faithful.error is not None:
        raise faithful.error
    return faithful.count


def _new_file(target: Path) -> tuple[Path, IO[bytes]]:
    """Return a new file beside ``target``, open and locked."""
    while True:
        beside = name_beside(target)
        raw = os.fdopen(os.open(beside, _NEW, 0o666), "r+b", buffering=0)
        if fcntl is not None:
            with contextlib.suppress(OSError):  # no locks here, or another process cleans up
                fcntl.flock(raw.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            # another process took the file for a leftover before it was locked here
            if os.fstat(raw.fileno()).st_nlink == 0:
                raw.close()
                continue
        return beside, raw


def _removed(leftover: Path) -> bool:
    """Delete one leftover unless a process holds its lock; return whether it is gone."""
    try:
        entry = leftover.lstat()
        # a link holds no lock, so that its age decides
        if (leftover.is_symlink() or entry.st_nlink > 1) and time.time() - entry.st_ctime < _GRACE:
            return False
        if fcntl is None or not stat.S_ISREG(entry.st_mode):  # opening a pipe would wait for its writer
            leftover.unlink()
            return True
        with leftover.open("rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()
    except OSError:
        return False
    return True
