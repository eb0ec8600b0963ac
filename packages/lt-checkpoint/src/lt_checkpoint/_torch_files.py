"""One verified file for each checkpoint, on this machine or behind a URL."""

from __future__ import annotations

import errno
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO, Any

import torch

from lt_checkpoint import _safetensors as safetensors
from lt_checkpoint._atomic_folder import REST_FILE, StrPath, clean_folders, put_in_place, standing
from lt_checkpoint._host_copy import host_tree
from lt_checkpoint.remote_file import (
    local_copy,
    remote_bytes,
    remote_exists,
    remote_files,
    remove_remote,
    write_remote,
)
from lt_core.checkpoint import OneFile, is_remote, local_path
from lt_core.errors import CheckpointError
from lt_core.files.atomic_file import name_beside, write_atomically, writing_errors
from lt_core.files.checkpoint_header import Header

__all__ = ["TorchCheckpointIO", "check_ending", "is_safetensors"]


class TorchCheckpointIO(OneFile):
    """Writes and reads one file for each checkpoint, in the format of ``torch.save``, as :class:`CheckpointIO` says.

    A file is read back before it gets its name; reading compares all checksums. Paths may be URLs that fsspec
    knows (``s3://...``). A path that ends in ``.safetensors`` gets the weights alone, in that format, which has no
    checksums; writing it takes the weights' bytes in memory once more.
    """

    def save_checkpoint(self, checkpoint: Mapping[str, Any], path: StrPath, storage_options: Any = None) -> None:
        """Write ``checkpoint`` to ``path``; a file that is there already stays until the new one is complete.

        Raises:
            ConfigTypeError: for ``storage_options`` with a local path, which has no use for them.
            CheckpointError: for a value that is not plain data, by its key, and for a name with the ending of another
                format, before anything is written; for errors of the file system, naming file and cause.
        """
        check_ending(path)
        tree = host_tree(checkpoint)
        write: Callable[[IO[bytes]], object] = partial(_save, tree)
        check: Callable[[IO[bytes]], object] | None = _check_written
        if is_safetensors(path):
            content = safetensors.as_bytes(tree, path)
            write, check = (lambda file: file.write(content)), None
        if is_remote(path):
            write_remote(str(path), write, storage_options)
            return
        file = local_path(path, storage_options)
        # a run that goes on without shards saves under the names that it had
        replaces = (file / REST_FILE).is_file() and not file.is_symlink()
        with writing_errors(path):
            written = name_beside(file) if replaces else file
            write_atomically(written, write, check)
            if replaces:
                put_in_place(written, file)

    def load_checkpoint(
        self,
        path: StrPath | IO[bytes],
        map_location: Any = None,
        weights_only: bool | None = None,
        *,
        trusted: bool = False,
        mmap: bool = False,
        verify: bool = True,
    ) -> dict[str, Any]:
        """Return the tree at ``path``; tensors by default where they were, or the CPU where that device is not here."""
        # a fit that begins anew reads no checkpoint: what reads them is imported then
        from lt_checkpoint._safe_read import read_checkpoint

        with _source(path) as (source, name):
            if is_safetensors(name):
                return safetensors.read(source, name or "", map_location)
            trusted |= weights_only is False
            return read_checkpoint(source, map_location, trusted=trusted, mmap=mmap, verify=verify, name=name)

    def remove_checkpoint(self, path: StrPath) -> None:
        if is_remote(path):
            remove_remote(str(path))
            return
        with writing_errors(path):
            local_path(path).unlink(missing_ok=True)

    def exists(self, path: StrPath) -> bool:
        """Return whether there is a checkpoint at ``path``: a file, or a sharded one's folder."""
        if is_remote(path):
            return remote_exists(str(path))
        return local_path(path).is_file() or (standing(local_path(path)) / REST_FILE).is_file()

    def times(self, folder: StrPath) -> dict[str, int]:
        return remote_files(str(folder), ".ckpt") if is_remote(folder) else super().times(folder)

    def header(self, path: StrPath) -> Header | None:
        """Return the header of the file or sharded folder at ``path`` (run, time, step) by one short read.

        No tensor is read and no code of the file runs. None where it says nothing, is damaged at its start, or is not
        there.

        Raises:
            CheckpointError: where a remote file system refuses.
        """
        from lt_checkpoint._header import read_header

        from_bytes = safetensors.read_header if is_safetensors(path) else read_header
        if is_remote(path):
            return from_bytes(partial(remote_bytes, str(path)))
        place = standing(local_path(path))
        file = place / REST_FILE if place.is_dir() else place
        try:
            if file.is_file():  # a pipe would wait
                with file.open("rb", buffering=0) as opened:
                    return from_bytes(partial(safetensors.part_of, opened))
        except OSError:
            pass
        return None

    def clean(self, folder: StrPath) -> None:
        """Delete leftovers of killed writes, of files and sharded checkpoints, in ``folder``."""
        if not is_remote(folder):
            super().clean(folder)
            clean_folders(local_path(folder))

    def verify(self, path: StrPath) -> None:
        from lt_checkpoint._safe_read import verify_checkpoint

        with _source(path) as (source, name):
            if is_safetensors(name):
                safetensors.read(source, name or "")
                return
            verify_checkpoint(source, name=name)


def check_ending(path: StrPath) -> None:
    """Refuse a checkpoint by a name that says that it is something else.

    Raises:
        CheckpointError: for the ending of another format, and for no name at all.
    """
    name = os.fspath(path)
    if not name or name == ".":
        raise CheckpointError(
            "A checkpoint was not written: its path is empty. Give the file a name, such as 'checkpoints/last.ckpt'.",
            code="LT625",
        )
    ending = next((ending for ending in _FOREIGN if name.lower().endswith(ending)), None)
    if ending is not None:
        raise CheckpointError(
            f"{name} was not written: a checkpoint is no {ending} file, and programs that read these by their name "
            f"would fail. Take {name[: -len(ending)]}.ckpt, or {name[: -len(ending)]}.safetensors for the weights "
            "alone.",
            code="LT609",
        )


_FOREIGN = (".gguf", ".onnx", ".h5", ".hdf5", ".npz", ".npy", ".json")
"""Endings of other formats, which other programs read by their name."""


def _save(tree: dict[str, Any], file: IO[bytes]) -> None:
    # a script may have switched checksums off for its own files; a damaged checkpoint is found by them
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(True)
    try:
        torch.save(tree, file)
    finally:
        torch.serialization.set_crc32_options(before)


def is_safetensors(path: Any) -> bool:
    """Return whether a path's ending asks for weights as safetensors."""
    return str(path).lower().endswith(".safetensors")


def _check_written(file: IO[bytes]) -> None:
    """Check that the archive is whole: its directory, and the record that names all others. A load checks the rest."""
    try:
        with zipfile.ZipFile(file) as archive:
            archive.read(next(name for name in archive.namelist() if name.endswith("/data.pkl")))
    except (zipfile.BadZipFile, StopIteration) as error:
        raise OSError(errno.EIO, f"the written file is read back otherwise: {error}") from error


@contextmanager
def _source(path: StrPath | IO[bytes]) -> Iterator[tuple[Path | IO[bytes], str | None]]:
    """Return a context with a readable file and its name for errors."""
    if not isinstance(path, (str, PathLike)):
        yield path, None
    elif is_remote(path):
        with local_copy(str(path)) as file:
            yield file, str(path)
    else:
        yield local_path(path), str(path)
