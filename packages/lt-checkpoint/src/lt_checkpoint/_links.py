"""Second names of files: links where the file system has them, else copies; each is there in one step."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import IO

from lt_core.atomic_file import name_beside, sync_directory, write_atomically

__all__ = ["name_also", "point_at"]

_FINAL = (errno.ENOSPC, errno.EROFS, errno.ENOENT)
"""Errors of the file system for which a copy is no remedy."""


def point_at(target: str | PathLike[str], link: str | PathLike[str]) -> None:
    """Make ``link`` lead to ``target``, in one step: a relative symbolic link, or where there are none a copy.

    Raises:
        OSError: from the file system. The old link is then as it was.
    """
    goal, name = Path(target), Path(link)
    _name(goal, name, lambda new: os.symlink(os.path.relpath(goal, name.parent), new), (*_FINAL, errno.EACCES))  # noqa: PTH211


def name_also(target: str | PathLike[str], name: str | PathLike[str]) -> None:
    """Give the file ``target`` the second name ``name``, in one step: a hard link, or where there are none a copy.

    Raises:
        OSError: from the file system. What stood at ``name`` is then as it was.
    """
    _name(Path(target), Path(name), lambda new: os.link(target, new), _FINAL)


def _name(goal: Path, name: Path, make: Callable[[Path], None], final: tuple[int, ...]) -> None:
    name.parent.mkdir(parents=True, exist_ok=True)
    beside = name_beside(name)
    try:
        make(beside)
    except (OSError, NotImplementedError, ValueError) as error:  # ValueError: on another drive
        if isinstance(error, OSError) and error.errno in final:
            raise
        write_atomically(name, lambda file: _copy(goal, file))
        return
    try:
        os.replace(beside, name)  # noqa: PTH105
    finally:
        with contextlib.suppress(OSError):  # replacing a name by the same file leaves both
            os.unlink(beside)  # noqa: PTH108
    sync_directory(name.parent)


def _copy(source: Path, file: IO[bytes]) -> None:
    with source.open("rb") as original:
        shutil.copyfileobj(original, file, 1 << 20)
