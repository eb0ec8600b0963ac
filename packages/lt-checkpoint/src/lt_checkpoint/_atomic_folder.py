"""Folders that are complete or not there: written beside their final name, then renamed.

A new folder is ``.<name>.partial`` until it is complete; the old one is ``.<stem>.old<suffix>`` for the moment
between the two renames, and is found there by :func:`standing`. A writer locks its folder while it lives.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

StrPath = str | PathLike[str]

REST_FILE = "rest.ckpt"
"""The file in a sharded checkpoint's folder that holds everything but the tensors; the header is in it."""

_PARTIAL = re.compile(r"^\..+\.partial$")
_OLD = re.compile(r"^\.(.+)\.old(\.[^.]+)?$")


def draft_of(path: StrPath) -> Path:
    """Return where the folder ``path`` is written until it is complete."""
    return Path(path).with_name(f".{Path(path).name}.partial")


def standing(path: StrPath) -> Path:
    """Return where the folder ``path`` stands: there, or beside it where a kill came in the middle of replacing it."""
    place = Path(path)
    beside = _old(place)
    return beside if not os.path.lexists(place) and beside.is_dir() else place


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Return a context in which :func:`clean_folders` leaves ``folder`` alone, in other processes too."""
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):  # no locks here: nothing is cleaned either
            descriptor = os.open(folder, os.O_RDONLY)
            opened.callback(os.close, descriptor)
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield


def put_in_place(draft: Path, path: Path) -> None:
    """Give a complete folder its name; the older one of that name is deleted last."""
    old = _old(path)
    if path.exists():
        _delete(old)  # of a process that was killed right here
        # in two steps, as rename replaces no folder with files in it; standing() finds the old one in between
        path.rename(old)
    draft.rename(path)
    _delete(old)


def remove_folder(path: Path) -> None:
    """Delete a folder, or a link to one, so that no half of it keeps the name."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    draft = draft_of(path)
    _delete(draft)
    path.rename(draft)
    shutil.rmtree(draft)


def clean_folders(parent: Path) -> list[Path]:
    """Delete the folders that killed writers have left in ``parent``; return them. Folders being written stay."""
    if not parent.is_dir():
        return []
    return [entry for entry in sorted(parent.iterdir()) if _is_left(entry) and _unlocked(entry) and _gone(entry)]


def _old(path: Path) -> Path:
    path = path if path.name else path.absolute()  # "." has no name of its own
    return path.with_name(f".{path.stem}.old{path.suffix}")  # with its ending, so that a search for that finds it


def _is_left(entry: Path) -> bool:
    old = _OLD.match(entry.name)
    replaced = old is not None and entry.with_name(old[1] + (old[2] or "")).exists()
    return (replaced or bool(_PARTIAL.match(entry.name))) and entry.is_dir() and not entry.is_symlink()


def _unlocked(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(descriptor)
    except OSError:
        return False
    return fcntl is not None


def _gone(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
