"""A file that only grows, and is closed between writes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from lt_core.files.atomic_file import make_folder, sync_directory, write_atomically


class LogFile:
    """Appends to ``path``, and makes it and its folders where they are missing.

    The file is opened for each write: writes are rare and large, no descriptor is held, and a folder that was removed
    in between is noticed. A write that fails leaves the file as it was.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def size(self) -> int:
        """The size in bytes, 0 where there is no file."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def append(self, content: bytes) -> None:
        """Write at the end, all or nothing.

        Raises:
            OSError: naming the file.
        """
        make_folder(self.path.parent)
        with self.path.open("ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                view = memoryview(content)
                while view:
                    view = view[file.write(view) :]
            except OSError as error:
                file.truncate(end)
                error.filename = error.filename or str(self.path)
                raise

    def replace(self, content: bytes) -> None:
        """Put ``content`` in the place of the whole file, all or nothing, and on disk."""
        try:
            write_atomically(self.path, lambda file: file.write(content))
        except OSError as error:
            error.filename = error.filename or str(self.path)
            raise

    def sync(self) -> None:
        """Flush appended bytes to disk, so that a checkpoint may claim them; costs milliseconds."""
        with suppress(FileNotFoundError):
            with self.path.open("rb+") as file:
                os.fsync(file.fileno())
            sync_directory(self.path.parent)

    def cut(self, size: int, kept: Path) -> None:
        """Shorten the file to ``size`` bytes; the rest is appended to the file ``kept``."""
        with self.path.open("r+b") as file:
            file.seek(size)
            tail = file.read()
            if tail:
                dropped = LogFile(kept)
                dropped.append(tail)
                dropped.sync()
                file.truncate(size)
