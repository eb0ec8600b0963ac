"""Checkpoints behind a URL (``s3://``, ``gs://``, ``memory://``...), through fsspec, which torch brings."""

from __future__ import annotations

import posixpath
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import IO, Any

from lt_core.errors import CheckpointError, MissingCheckpointError
from lt_core.files.atomic_file import fill

__all__ = ["remove_remote", "write_remote"]


def write_remote(url: str, write: Callable[[IO[bytes]], object], options: Any = None) -> None:
    """Write to a name beside ``url``, compare the size, and move it there: complete or not there.

    Raises:
        CheckpointError: names URL and cause.
    """
    with _file(url, "written", options) as (system, path):
        folder, name = posixpath.split(path)
        beside = posixpath.join(folder, f".{name}.{secrets.token_hex(6)}.tmp")
        system.makedirs(folder, exist_ok=True)
        try:
            with system.open(beside, "wb") as there:
                size = fill(there, write)
            if system.size(beside) != size:
                raise OSError(f"{system.size(beside)} of {size} bytes arrived")
            system.mv(beside, path)
        except BaseException:
            if system.exists(beside):
                system.rm(beside)
            raise


@contextmanager
def local_copy(url: str) -> Iterator[IO[bytes]]:
    """Return a context with a temporary local copy of ``url``.

    Raises:
        CheckpointError: names URL and cause.
    """
    with tempfile.TemporaryFile() as here:
        with _file(url, "read") as (system, path), system.open(path, "rb") as there:
            shutil.copyfileobj(there, here, 1 << 20)
        here.seek(0)
        yield here


def remote_bytes(url: str, start: int, end: int) -> bytes:
    """Return a part of the file at ``url`` by one request; nothing where there is no file."""
    with _file(url, "read") as (system, path):
        try:
            return bytes(system.cat_file(path, start=start, end=end))
        except FileNotFoundError:
            return b""


def remote_exists(url: str) -> bool:
    """Return whether there is a file at ``url``."""
    with _file(url, "looked up") as (system, path):
        return bool(system.isfile(path))


def remote_files(url: str, suffix: str) -> dict[str, int]:
    """Return when each file of a folder that ends with ``suffix`` was written, in nanoseconds, by its URL.

    One request lists them with their times; a file system that lists no times is asked for each.
    """
    with _file(url, "looked up") as (system, path):
        try:
            entries = system.ls(path, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        found: dict[str, int] = {}
        for entry in entries:
            name = entry["name"]
            if name.endswith(suffix) and entry.get("type") != "directory":
                times = (entry.get(key) for key in _TIME_KEYS)
                with suppress(FileNotFoundError):  # another process may delete it just now
                    time = next((time for time in times if isinstance(time, datetime | float)), 0) or system.modified(
                        name
                    )
                    seconds = time.timestamp() if isinstance(time, datetime) else time
                    found[system.unstrip_protocol(name)] = int(seconds * 1e9)
        return found


_TIME_KEYS = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")
"""Keys for the modification time in listings of fsspec's file systems."""


def remove_remote(url: str, options: Any = None) -> None:
    """Delete the file at ``url``, if there is one."""
    with _file(url, "deleted", options) as (system, path):
        if system.exists(path):
            system.rm(path)


@contextmanager
def _file(url: str, done: str, options: Any = None) -> Iterator[tuple[Any, str]]:
    """Give the file system and the path in it of ``url``, for the work ``done`` there; every error names the URL."""
    try:
        import fsspec  # type: ignore[import-untyped]

        yield fsspec.core.url_to_fs(url, **(options or {}))
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        raise MissingCheckpointError(f"{url} could not be {done}: it is not there.", code="LT656") from error
    except ImportError as error:
        raise CheckpointError(f"{url} could not be {done}: {error}", code="LT653") from error
    except Exception as error:  # each remote file system has errors of its own
        raise CheckpointError(
            f"{url} could not be {done}: {type(error).__name__}: {error}. Check the URL, the network and your access.",
            code="LT653",
        ) from error
