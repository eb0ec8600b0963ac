"""Checkpoint files: complete or not there, verified, read without running their code; with a Trainer or without."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lt_checkpoint._atomic_folder import StrPath
from lt_checkpoint._background import AsyncCheckpointIO
from lt_checkpoint._torch_files import TorchCheckpointIO
from lt_core.checkpoint import CheckpointIO, is_remote
from lt_core.errors import CheckpointError
from lt_core.plugins import load_name

if TYPE_CHECKING:
    from lt_checkpoint._sharded import ShardedCheckpointIO

__version__: str

__all__ = [
    "AsyncCheckpointIO",
    "CheckpointError",
    "ShardedCheckpointIO",
    "TorchCheckpointIO",
    "load",
    "save",
    "verify",
]


def save(tree: Mapping[str, Any], path: StrPath, *, storage_options: Any = None) -> None:
    """Write a tree of tensors and plain data; an older file at ``path`` stays until the new one is complete.

    Args:
        tree: dicts, lists, numbers, strings, tensors... (:mod:`lt_core.files.plain_data`), nested as you like.
        path: a file's path, whose folder is made, or a URL that fsspec knows (``s3://...``).
        storage_options: for URLs: the arguments of fsspec's file system.

    Raises:
        CheckpointError: for a value that is not plain data, by its key, before anything is written; for errors of the
            file system, naming file, cause and remedy.
    """
    TorchCheckpointIO().save_checkpoint(tree, path, storage_options)


def load(
    path: StrPath | IO[bytes],
    map_location: Any = None,
    *,
    trusted: bool = False,
    mmap: bool = False,
    verify: bool = True,
) -> dict[str, Any]:
    """Return the tree in a file that :func:`save`, ``torch.save``, lt or Lightning wrote; none of its code runs.

    Args:
        path: a file's path, a URL, an open file, or a sharded checkpoint's folder (its weights, whole).
        map_location: where tensors go, as in ``torch.load``; by default where they were, or the CPU where that device
            is not here.
        trusted: read it even if it is more than plain data; it can then run any code. Warns.
        mmap: map tensors from the file in place of reading them; checksums are then not compared.
        verify: compare the checksum of every record.

    Raises:
        CheckpointError: for a file that is missing, empty, damaged, foreign or hostile: path, reason, remedy.
    """
    return _reader(path).load_checkpoint(path, map_location, trusted=trusted, mmap=mmap, verify=verify)


def verify(path: StrPath) -> None:
    """Return if a file, or a sharded checkpoint's folder, is complete, undamaged and plain data only.

    Raises:
        CheckpointError: path, reason, remedy.
    """
    _reader(path).verify(path)


def _reader(path: Any) -> CheckpointIO:
    """Return the reader of a file or a folder; torch's code for folders takes a second to import."""
    if isinstance(path, (str, PathLike)) and not is_remote(path) and Path(path).is_dir():
        return __getattr__("ShardedCheckpointIO")()  # type: ignore[no-any-return]
    return TorchCheckpointIO()


def __getattr__(name: str) -> Any:
    return load_name(__name__, {"ShardedCheckpointIO": "._sharded"}, name)
