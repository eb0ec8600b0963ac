"""Writing and reading of checkpoints: the interface ``CheckpointIO``, and a default of one plain file for each.

The default is enough to save and to resume exactly. lt-checkpoint takes its place, by the group ``lt.checkpoint_io``,
and brings the rest: URLs, Lightning's files, saving in the background, sharded checkpoints, errors that say more.
"""

from __future__ import annotations

import errno
import os
import pickle
import re
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import torch
from torch import Tensor

from lt_core import plugins
from lt_core.errors import CheckpointError, ConfigError, ConfigTypeError, MissingCheckpointError, near_files, warn
from lt_core.files.atomic_file import clean_leftovers, name_beside, sync_directory, write_atomically, writing_errors
from lt_core.files.checkpoint_header import Header
from lt_core.files.plain_data import plain_tree
from lt_core.interface import Interface
from lt_core.ranks import Ranks

__all__ = [
    "CheckpointIO",
    "OneFile",
    "Stored",
    "SupportsShards",
    "default_io",
    "is_remote",
    "local_folder",
    "local_path",
    "need_shards",
]

StrPath = str | PathLike[str]

_URL = re.compile(r"^(?!file://)[a-zA-Z][a-zA-Z0-9+.-]+://")


class CheckpointIO(Interface):
    """Writes and reads one file for each checkpoint, in the format of ``torch.save``.

    A file is complete or not there: it is written beside its final name, synced and renamed. It holds plain data and
    tensors only (see :mod:`lt_core.files.plain_data`), on the CPU, so that ``torch.load(path, weights_only=True)``
    opens it anywhere, and reading it runs no code.

    Members that a subclass does not override are lt-checkpoint's where it is installed, else :class:`OneFile`'s; one
    for another format or place overrides all members that touch files. It is found by an entry point in
    ``lt.checkpoint_io``, a class or a function that returns an instance without arguments:
    ``Trainer(plugins="its_name")``, or always where it is called ``default``; or it is given to the Trainer as an
    object. Only the process that writes calls the writing members. One that also keeps checkpoints to which every rank
    contributes has the members of :class:`SupportsShards`.

    Attributes:
        keeps_objects: whether :meth:`save_checkpoint` takes any Python object; hyperparameters then go there as they
            are, in place of by name where they are no plain data. Reading such a file can run code.
    """

    keeps_objects: bool = False

    def save_checkpoint(self, checkpoint: Mapping[str, Any], path: StrPath, storage_options: Any = None) -> None:
        """Write ``checkpoint`` to ``path``; a file that is there already stays until the new one is complete.

        Args:
            checkpoint: any nesting of plain data and tensors.
            path: a file's path, whose folder is made, or a URL.
            storage_options: for URLs: the arguments of fsspec's file system.

        Raises:
            CheckpointError: for values other than plain data, naming the key, before anything is written; for errors of
                the file system, naming file and cause; for a URL, where this object knows none.
        """
        _default().save_checkpoint(checkpoint, path, storage_options)

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
        """Return the tree at ``path``.

        Args:
            path: a file's path, a URL, or a file that is open for reading in binary.
            map_location: where tensors go, as in ``torch.load``; by default where they were, or the CPU where
                that device is not here.
            weights_only: Lightning's argument; False is ``trusted=True``.
            trusted: read it even if it is more than plain data; it can then run any code. Warns.
            mmap: map tensors from the file in place of reading them; checksums are then not compared.
            verify: compare the checksum of every record.

        Raises:
            CheckpointError: for a file that is missing, empty, damaged, foreign or hostile: path, reason, way out.
        """
        return _default().load_checkpoint(
            path, map_location, trusted=trusted or weights_only is False, mmap=mmap, verify=verify
        )

    def remove_checkpoint(self, path: StrPath) -> None:
        """Delete the checkpoint at ``path``, if it is there.

        Raises:
            CheckpointError: when the file system refuses.
        """
        _default().remove_checkpoint(path)

    def point_last(self, target: StrPath, link: StrPath) -> None:
        """Make ``link`` lead to the checkpoint ``target``, in one step: a link, or where there are none a copy.

        Raises:
            CheckpointError: when the file system refuses; the old link then stays.
        """
        if _is_here(target, link):
            _default().point_last(target, link)
        else:
            self.save_checkpoint(self.load_checkpoint(target), link)

    def add_name(self, target: StrPath, name: StrPath) -> None:
        """Give the checkpoint ``target`` a second name that stays when ``target`` is deleted, in one step.

        Raises:
            CheckpointError: when the file system refuses; the old content of ``name`` then stays.
        """
        if _is_here(target, name) and local_path(target).is_file():
            _default().add_name(target, name)
        else:
            self.save_checkpoint(self.load_checkpoint(target), name)

    def exists(self, path: StrPath) -> bool:
        """Return whether there is a checkpoint at ``path``."""
        return _default().exists(path)

    def times(self, folder: StrPath) -> dict[str, int]:
        """Return the checkpoints directly in ``folder``: their whole paths, each with the time at which it was written,
        in nanoseconds since 1970.

        ``ckpt_path="last"`` and ``"auto"`` take the newest, by the files' headers (:meth:`header`), else
        by these times. Their names end in ``.ckpt``; a link counts as its target; a folder that is not there has
        none.
        """
        return _default().times(folder)

    def header(self, path: StrPath) -> Header | None:
        """Return the header of the checkpoint at ``path``: run, time, step. No tensor is read, no code runs.

        None if it has none, cannot be read, or is not there: it then counts by :meth:`times`.
        """
        return _default().header(path)

    def clean(self, folder: StrPath) -> None:
        """Delete the leftovers of killed writes in ``folder``; files being written stay."""
        _default().clean(folder)

    def verify(self, path: StrPath) -> None:
        """Return if the checkpoint at ``path`` is complete, undamaged, and plain data only.

        Raises:
            CheckpointError: path, reason, way out.
        """
        _default().verify(path)

    def wait(self) -> None:
        """Return when all requested writes are done; here they always are.

        Raises:
            CheckpointError: for background failures since the last call.
        """

    def is_writing(self) -> bool:
        """Return, without waiting, whether a requested write is not done yet."""
        return False

    def failures(self) -> dict[str, Exception]:
        """Wait, and return the background failures since the last call or :meth:`wait`, by path.

        So each save has its own outcome. Where it is not known which one failed, as by default, the path is empty.
        """
        try:
            self.wait()
        except (CheckpointError, OSError) as error:
            return {"": error}
        return {}

    def teardown(self) -> None:
        """Wait, then give back threads and buffers. The object can be used again."""


class OneFile(CheckpointIO):
    """One plain file for each checkpoint, written and read with torch and Python alone."""

    def save_checkpoint(self, checkpoint: Mapping[str, Any], path: StrPath, storage_options: Any = None) -> None:
        file = local_path(path, storage_options)
        if file.suffix == ".safetensors":
            hint = plugins.install_hint("lt-checkpoint[safetensors]")
            raise CheckpointError(f"{path}: this format comes with lt-checkpoint: {hint}.", code="LT679")
        tree = plain_tree(dict(checkpoint), tensor=lambda tensor: tensor.detach().cpu())
        with writing_errors(path):
            write_atomically(file, partial(torch.save, tree))

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
        if trusted := trusted or weights_only is False:
            warn(f"trusted=True: {path} may run any code while it is read. Only for files of your own.", code="LT655")
        file = _found(path) if isinstance(path, (str, PathLike)) else path
        with _reading_errors(path):
            if verify and not mmap:  # torch.load reads a flipped bit without noticing
                _compare_checksums(file)
            tree = torch.load(file, map_location=map_location or "cpu", weights_only=not trusted, mmap=mmap)
        if not isinstance(tree, dict):
            raise CheckpointError(
                f"{path} holds a {type(tree).__name__}: expected a dict with the keys of a checkpoint.", code="LT658"
            )
        return tree

    def remove_checkpoint(self, path: StrPath) -> None:
        with writing_errors(path):
            local_path(path).unlink(missing_ok=True)

    def point_last(self, target: StrPath, link: StrPath) -> None:
        # relative, so that the link holds where the folder is moved or mounted elsewhere
        self._lt_name(target, link, lambda goal, new: os.symlink(os.path.relpath(goal, new.parent), new))  # noqa: PTH211

    def add_name(self, target: StrPath, name: StrPath) -> None:
        self._lt_name(target, name, os.link)

    def _lt_name(self, target: StrPath, name: StrPath, make_link: Callable[[Path, Path], None]) -> None:
        """Give the file, or a sharded checkpoint's folder, a second name by a link; copy it where there are none."""
        if is_remote(target) or is_remote(name):
            self.save_checkpoint(self.load_checkpoint(target), name)
            return
        goal, new = local_path(target), local_path(name)
        if not goal.is_dir():
            goal = _found(target)
        beside = name_beside(new)
        with writing_errors(name):
            new.parent.mkdir(parents=True, exist_ok=True)
            try:
                make_link(goal, beside)
            except (OSError, NotImplementedError, ValueError) as error:  # ValueError: on another drive
                if isinstance(error, OSError) and error.errno in _NO_COPY:
                    raise
                write_atomically(new, partial(_copy, goal))
                return
            try:
                os.replace(beside, new)  # noqa: PTH105
            finally:
                with suppress(OSError):  # replacing a name by the same file leaves both
                    os.unlink(beside)  # noqa: PTH108
            sync_directory(new.parent)

    def exists(self, path: StrPath) -> bool:
        return local_path(path).is_file()

    def times(self, folder: StrPath) -> dict[str, int]:
        found: dict[str, int] = {}
        for path in local_path(folder).glob("*.ckpt"):
            with suppress(OSError):  # the other processes of a job may delete it just now, or it links to itself
                entry = path.stat()
                if stat.S_ISREG(entry.st_mode) or stat.S_ISDIR(entry.st_mode):  # reading a pipe would never end
                    found[os.path.realpath(path)] = entry.st_mtime_ns
        return found

    def header(self, path: StrPath) -> Header | None:
        with suppress(CheckpointError):
            return Header.of(self.load_checkpoint(path, mmap=True))
        return None

    def clean(self, folder: StrPath) -> None:
        clean_leftovers(local_path(folder))

    def verify(self, path: StrPath) -> None:
        self.load_checkpoint(path)


_NO_COPY = (errno.ENOSPC, errno.EROFS, errno.ENOENT)
"""Errors of the file system for which a copy in place of a link is no remedy."""


def _is_here(target: StrPath, name: StrPath) -> bool:
    """Return whether ``target`` lies on this machine, where ``name`` shall: a subclass may keep it elsewhere."""
    return not is_remote(target) and not is_remote(name) and local_path(target).exists()


def _copy(source: Path, file: IO[bytes]) -> None:
    with source.open("rb") as original:
        shutil.copyfileobj(original, file, 1 << 20)


def local_path(path: StrPath, storage_options: Any = None) -> Path:
    """Return a path on this machine; raise for a URL, and for options that only a URL has a use for."""
    if is_remote(path):
        raise CheckpointError(
            f"{path}: checkpoints behind URLs come with lt-checkpoint: {plugins.install_hint('lt-checkpoint')}. Or "
            "give a folder on this machine.",
            code="LT630",
        )
    if storage_options:
        raise ConfigTypeError(
            f"storage_options={storage_options!r}: they are arguments of a file system behind a URL (s3://...), and "
            f"{path} is a local path. Leave them out, or give the Trainer a CheckpointIO that takes them "
            "(plugins=[...]).",
            code="LT666",
        )
    return Path(str(path).removeprefix("file://"))


def _found(path: StrPath) -> Path:
    file = local_path(path)
    if file.is_dir():
        raise CheckpointError(
            f"{path} is a folder: expected a file. Sharded checkpoints, which are folders, come with lt-checkpoint: "
            f"{plugins.install_hint('lt-checkpoint')}.",
            code="LT659",
        )
    if not file.is_file():  # opening a pipe would wait for its writer
        gone = "is no regular file" if file.exists() else "is not there"
        raise MissingCheckpointError(f"{path} {gone}.{near_files(file)}", code="LT656")
    return file


def _compare_checksums(file: Path | IO[bytes]) -> None:
    with zipfile.ZipFile(file) as archive:
        summed = any(record.CRC for record in archive.infolist())  # not where torch was asked to leave them out
        if summed and (name := archive.testzip()) is not None:
            raise zipfile.BadZipFile(f"the checksum of its record {name!r} is wrong")
    if not isinstance(file, Path):
        file.seek(0)


@contextmanager
def _reading_errors(path: Any) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{path} could not be read: {error.strerror or error}.", code="LT656") from error
    except (ImportError, AttributeError) as error:
        raise CheckpointError(
            f"{path} was not read: its own code raised {type(error).__name__}: {_first_line(error)}. Install what it "
            "needs, or read it without trusted=True.",
            code="LT658",
        ) from error
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} was not read: {_first_line(error)}. Only plain data and tensors are read, so that no file can run "
            f"code; lt-checkpoint reads Lightning's files too: {plugins.install_hint('lt-checkpoint')}. If you made "
            "it yourself and know its contents: weights_only=False.",
            code="LT658",
        ) from error
    except Exception as error:
        raise CheckpointError(
            f"{path} is damaged, or torch.save did not write it: {_first_line(error)}. Take an older checkpoint.",
            code="LT657",
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300].rstrip(".")


class Stored(dict[str, Any]):
    """Tensors that are still on disk: None by name. Each rank reads its own part when it knows the module."""

    def read(self, like: Mapping[str, Tensor]) -> dict[str, Any]:
        """Return the stored tensors, each sharded as its model is; called on every rank.

        Args:
            like: for a module's state its own tensors by name, which are filled in place; for an optimizer's state
                its parameters by number (``"0"``, ``"1"``...), and the result has an entry for each.
        """
        raise NotImplementedError

    def __deepcopy__(self, memo: dict[int, Any]) -> Stored:
        return self


class SupportsShards(CheckpointIO):
    """A :class:`CheckpointIO` that also keeps checkpoints to which every rank writes its part.

    Their trees have DTensors in ``state_dict`` and in the ``state`` of ``optimizer_states``. Its own members are called
    on every rank, and raises the same error on all; verifying and removing do for both kinds of checkpoints.
    """

    def save_shards(self, tree: dict[str, Any], path: StrPath, ranks: Ranks) -> None:
        """Write ``tree`` to ``path``, complete or not there; each rank its own part of each DTensor."""
        raise NotImplementedError

    def load_shards(self, path: StrPath, ranks: Ranks, *, trusted: bool = False) -> dict[str, Any]:
        """Return the tree; of a checkpoint with shards each state is a :class:`Stored` in place of tensors."""
        raise NotImplementedError


def default_io() -> CheckpointIO:
    """Return a Trainer's checkpoint IO: a package's ``default``, else lt-checkpoint's in the background,
    else one that writes plain files.
    """
    return _made("default") or _default("async")


def _default(name: str = "torch") -> CheckpointIO:
    return _made(name) or OneFile()


def _made(name: str) -> CheckpointIO | None:
    make: Callable[[], CheckpointIO] | None = plugins.find("checkpoint_io", name)
    return make and make()


def shards_of(io: CheckpointIO) -> SupportsShards | None:
    """Return ``io`` where it supports shards, else lt-checkpoint's wrapper around it; None without lt-checkpoint."""
    if isinstance(io, SupportsShards):
        return io
    make: Callable[[CheckpointIO], SupportsShards] | None = plugins.find("checkpoint_io", "sharded")
    return make and make(io)


def need_shards(io: CheckpointIO) -> SupportsShards:
    """Return :func:`shards_of` ``io``.

    Raises:
        ConfigError: where there is none.
    """
    shards = shards_of(io)
    if shards is None:
        raise ConfigError(
            "A checkpoint to which every rank contributes comes with lt-checkpoint: "
            f"{plugins.install_hint('lt-checkpoint')}. Or have the strategy write one file (fsdp: "
            "state_dict_type='full').",
            code="LT636",
        )
    return shards


def is_remote(path: StrPath) -> bool:
    """Return whether ``path`` is a URL."""
    return isinstance(path, str) and bool(_URL.match(path))


@contextmanager
def local_folder(path: StrPath) -> Iterator[Path]:
    """Give the folder ``path``, made where it is not there; for a URL one whose files go there when the block ends."""
    if not is_remote(path):
        Path(path).mkdir(parents=True, exist_ok=True)
        yield Path(path)
        return
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # which torch brings

    system, root = url_to_fs(str(path))
    with TemporaryDirectory() as folder:
        yield Path(folder)
        system.put(f"{folder}/", f"{root}/", recursive=True)
