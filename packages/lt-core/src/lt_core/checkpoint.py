"""What writes and reads checkpoints: ``CheckpointIO``, the interface, which is also its working default."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO, Any

import torch

from lt_core.archive import Archive
from lt_core.atomic_file import clean_leftovers, name_also, point_at, write_atomically, writing_errors
from lt_core.atomic_folder import check_ending, standing
from lt_core.checkpoint_header import REST_FILE, Header, read_header
from lt_core.errors import CheckpointError, ConfigTypeError
from lt_core.from_checkpoint import load_from_checkpoint, load_state_dict_strictly
from lt_core.host_copy import host_tree
from lt_core.older import adapt
from lt_core.remote_file import (
    is_remote,
    local_copy,
    remote_bytes,
    remote_exists,
    remote_files,
    remove_remote,
    write_remote,
)
from lt_core.safe_read import read_checkpoint, verify_checkpoint

__all__ = ["CheckpointIO", "clean_leftovers", "load_from_checkpoint", "load_state_dict_strictly"]

StrPath = str | PathLike[str]


class CheckpointIO:
    """Writes and reads one file for each checkpoint, in the format of ``torch.save``.

    A file is complete or not there: it is written beside its final name, synced, checked and renamed. It holds plain
    data and tensors only (see :mod:`lt_core.plain_data`), so that ``torch.load(path, weights_only=True)`` opens it
    anywhere; its tensors are on the CPU. Reading runs no code of the file and compares all checksums.

    Paths may be URLs that fsspec knows (``s3://...``). A subclass for another format or place overrides all members
    that touch files. It is found by an entry point in ``lt.checkpoint_io``, a class or a function that returns an
    instance without arguments: ``Trainer(plugins="its_name")``, or always where it is called ``default``; or it is
    given to the Trainer as an object. Only the process that writes calls the writing members.

    Attributes:
        keeps_objects: whether :meth:`save_checkpoint` takes any Python object; hyperparameters then go there as they
            are, in place of by name where they are no plain data. Reading such a file can run code.
    """

    keeps_objects: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let a class whose members take less, as Lightning's do, go on working without the rest."""
        super().__init_subclass__(**kwargs)
        adapt(cls, CheckpointIO)

    def save_checkpoint(self, checkpoint: Mapping[str, Any], path: StrPath, storage_options: Any = None) -> None:
        """Write ``checkpoint`` to ``path``; a file that is there already stays until the new one is complete.

        Args:
            checkpoint: any nesting of plain data and tensors.
            path: a file's path, whose folder is made, or a URL.
            storage_options: for URLs: the arguments of fsspec's file system.

        Raises:
            ConfigTypeError: for ``storage_options`` with a local path, which has no use for them.
            CheckpointError: for what is not plain data, naming its key, and for a name with the ending of another
                format, before anything is written; for errors of the file system, naming file and cause.
        """
        check_ending(path)
        tree = host_tree(checkpoint)
        write: Callable[[IO[bytes]], object] = partial(_save, tree)
        if is_remote(path):
            write_remote(str(path), write, storage_options)
            return
        if storage_options:
            raise ConfigTypeError(
                f"storage_options={storage_options!r}: they are arguments of a file system behind a URL (s3://...), "
                f"and {path} is a local path. Leave them out, or give the Trainer a CheckpointIO that takes them "
                "(plugins=[...]).",
                code="LT666",
            )
        with writing_errors(path):
            write_atomically(_local(path), write, _check_written)

    def load_checkpoint(
        self,
        path: StrPath,
        map_location: Any = None,
        weights_only: bool | None = None,
        *,
        trusted: bool = False,
        mmap: bool = False,
        verify: bool = True,
    ) -> dict[str, Any]:
        """Return the tree at ``path``.

        Args:
            path: a file's path or a URL.
            map_location: where tensors go, as in ``torch.load``; by default where they were, or the CPU where that
                device is not here.
            weights_only: Lightning's argument; False is ``trusted=True``.
            trusted: read it even if it is more than plain data; it can then run any code. Warns.
            mmap: map tensors from the file in place of reading them; checksums are then not compared.
            verify: compare the checksum of every record.

        Raises:
            CheckpointError: for a file that is missing, empty, damaged, foreign or hostile: path, reason, way out.
        """
        with _source(path) as (source, name):
            trusted = trusted or weights_only is False
            return read_checkpoint(source, map_location, trusted=trusted, mmap=mmap, verify=verify, name=name)

    def remove_checkpoint(self, path: StrPath) -> None:
        """Delete the checkpoint at ``path``, if it is there.

        Raises:
            CheckpointError: when the file system refuses.
        """
        if is_remote(path):
            remove_remote(str(path))
            return
        with writing_errors(path):
            _local(path).unlink(missing_ok=True)

    def point_last(self, target: StrPath, link: StrPath) -> None:
        """Make ``link`` lead to the checkpoint ``target``, in one step: a link where there are links, else a copy.

        Raises:
            CheckpointError: when the file system refuses; the old link then stays.
        """
        if is_remote(target) or is_remote(link):
            self.save_checkpoint(self.load_checkpoint(target), link)
            return
        with writing_errors(link):
            point_at(_local(target), _local(link))

    def add_name(self, target: StrPath, name: StrPath) -> None:
        """Give the checkpoint ``target`` a second name that stays when ``target`` is deleted, in one step.

        Raises:
            CheckpointError: when the file system refuses; what stood at ``name`` then stays.
        """
        if is_remote(target) or is_remote(name):
            self.save_checkpoint(self.load_checkpoint(target), name)
            return
        with writing_errors(name):
            name_also(_local(target), _local(name))

    def exists(self, path: StrPath) -> bool:
        """Return whether there is a checkpoint at ``path``."""
        return remote_exists(str(path)) if is_remote(path) else _local(path).is_file()

    def times(self, folder: StrPath) -> dict[str, int]:
        """Return the checkpoints directly in ``folder``, each with the time at which it was written, in nanoseconds.

        ``ckpt_path="last"`` and ``"auto"`` take the newest, by what the files say of themselves (:meth:`header`), else
        by these times. Their names end in ``.ckpt``; a link counts as what it leads to; a folder that is not there has
        none.
        """
        if is_remote(folder):
            return remote_files(str(folder), ".ckpt")
        found: dict[str, int] = {}
        for path in _local(folder).glob("*.ckpt"):
            with suppress(FileNotFoundError):  # the other processes of a job may delete it just now
                found[str(path.resolve())] = path.stat().st_mtime_ns
        return found

    def header(self, path: StrPath) -> Header | None:
        """Return what the file, or sharded folder, at ``path`` says of itself: run, time, step; by one short read.

        No tensor is read and no code of the file runs. None where it says nothing, is damaged at its start, or is not
        there: it then counts by :meth:`times`.

        Raises:
            CheckpointError: where a remote file system refuses.
        """
        if is_remote(path):
            return read_header(partial(remote_bytes, str(path)))
        place = standing(_local(path))
        try:
            with (place / REST_FILE if place.is_dir() else place).open("rb", buffering=0) as file:
                return read_header(partial(_bytes_of, file))
        except OSError:
            return None

    def verify(self, path: StrPath) -> None:
        """Return if the checkpoint at ``path`` is complete, undamaged, and plain data only.

        Raises:
            CheckpointError: path, reason, way out.
        """
        with _source(path) as (source, name):
            verify_checkpoint(source, name=name)

    def wait(self) -> None:
        """Return when everything that was asked for is done; here it is at once.

        Raises:
            CheckpointError: for what has failed in the background since the last call.
        """

    def is_writing(self) -> bool:
        """Return, without waiting, whether something that was asked for is not done yet; False where all is done at
        once.
        """
        return False

    def failures(self) -> dict[str, Exception]:
        """Wait, and return what has failed in the background since the last call or :meth:`wait`, by path.

        So each save has its own outcome. Where it is not known which one failed, as by default, the path is empty.
        """
        try:
            self.wait()
        except (CheckpointError, OSError) as error:
            return {"": error}
        return {}

    def teardown(self) -> None:
        """Wait, then give back threads and buffers. The object can be used again."""


def _save(tree: dict[str, Any], file: IO[bytes]) -> None:
    with_checksums = torch.serialization.get_crc32_options()
    if not with_checksums:
        torch.serialization.set_crc32_options(True)
    try:
        torch.save(tree, file)
    finally:
        if not with_checksums:
            torch.serialization.set_crc32_options(False)


def _bytes_of(file: IO[bytes], start: int, end: int) -> bytes:
    file.seek(start)
    return file.read(end - start)


def _check_written(file: IO[bytes]) -> None:
    """Check that the archive is whole: all records in their places, the last byte the last. A load checks the bytes."""
    Archive(file).read("data.pkl")


def _local(path: StrPath) -> Path:
    text = str(path)
    return Path(text.removeprefix("file://"))


@contextmanager
def _source(path: StrPath) -> Iterator[tuple[Path | IO[bytes], str]]:
    """Return a context with what to read and what to call it."""
    if not is_remote(path):
        yield _local(path), str(path)
        return
    with local_copy(str(path)) as file:
        yield file, str(path)
