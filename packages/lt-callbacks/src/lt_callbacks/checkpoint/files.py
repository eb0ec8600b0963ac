"""The folder of a callback's checkpoints: what is there, and what is the callback's own."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Collection, Iterable
from functools import cached_property
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from lt_callbacks.checkpoint.ledger import Ledger
from lt_core.checkpoint import CheckpointIO
from lt_core.errors import CheckpointError, ConfigError
from lt_core.files.atomic_file import make_folder
from lt_core.strategy import Strategy
from lt_core.trainer import TrainerAPI


def is_remote(path: str) -> bool:
    """Return whether ``path`` is a URL of another file system, such as ``s3://bucket/run``."""
    return "://" in path


def path_in(folder: str, name: str) -> str:
    """Return the path of ``name`` in a folder, local or remote."""
    return f"{folder.rstrip('/')}/{name}" if is_remote(folder) else str(Path(folder) / name)


def absolute(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a folder, so that it does not change with the process's working directory."""
    text = os.fspath(path)
    return text if is_remote(text) else str(Path(text).expanduser().absolute())


class CheckpointFiles:
    """Looks after the files of one callback in one folder.

    Its own are those that it wrote in this process, and those whose header holds its mark: the callback's id, the
    folder and the name under which they were written. So a process that takes over from a killed one tidies up after
    it, and files that were copied, moved or renamed, which may be all that somebody has, are nobody's.

    Args:
        folder: absolute path or URL.
        owner: the callback's id, which its resumed processes take over.
        io: what writes the files, and reads what they say of themselves.
        written: paths that the callback wrote in this process before.

    Attributes:
        written: paths that are known to be the callback's.
    """

    def __init__(self, folder: str, owner: str, io: CheckpointIO, written: Iterable[str] = ()) -> None:
        self.folder = folder
        self.remote = is_remote(folder)
        self._owner = owner
        self._io = io
        self._ledger = None if self.remote else Ledger(Path(folder))
        self.written = set(written)

    def check(self, strategy: Strategy) -> None:
        """Make the folder, and see that rank 0 can write there.

        Raises:
            ConfigError: on every rank, before anything was trained.
        """
        problem = strategy.broadcast(self._problem() if strategy.rank == 0 else "")
        if problem:
            raise ConfigError(
                f"Checkpoints go to {self.folder}, where none can be written: {problem}. Give a folder that you may "
                "write to by ModelCheckpoint(dirpath=...) or Trainer(default_root_dir=...), or take "
                "Trainer(enable_checkpointing=False).",
                code="LT643",
            )

    def _problem(self) -> str:
        try:
            if self.remote:
                self._io.clean(self.folder)  # nothing to do there, except for an object that knows no URLs
                return ""
            make_folder(Path(self.folder))
            with tempfile.TemporaryFile(dir=self.folder) as file:
                file.write(b"1")
        except (CheckpointError, OSError, ValueError) as error:
            return getattr(error, "strerror", None) or str(error)
        return ""

    def clean(self) -> None:
        """Delete what killed writes left behind, but for files that somebody still writes."""
        self._io.clean(self.folder)

    def writes(self, path: str) -> str:
        """Note that the callback is about to write ``path``; return the mark for its header."""
        self.written.add(path)
        return self._mark_of(self.name_of(path) or "")

    def owns(self, path: str, *, renamed: bool = False) -> bool:
        """Return whether the callback wrote ``path``, in this process or before it was resumed.

        ``renamed``: the callback gives this name to files that it wrote under another one. The two need not be one
        file: the first is gone, or the folder was copied, or has no hard links.
        """
        name = self.name_of(path)
        if name is None or path in self.written:
            return name is not None
        mark = self._mark_in(path)
        own = mark.startswith(self.mark) if renamed else mark == self._mark_of(name)
        if not own and self._ledger is not None:
            nowhere = os.path.islink(path) and not os.path.exists(path)  # noqa: PTH110, PTH114  (a link to nothing)
            own = nowhere or self._ledger.owns(self._owner, name)
        if own:
            self.written.add(path)
        return own

    def retire_ledger(self) -> None:
        """Delete what 0.1 noted about the files, where nobody needs it any more."""
        if self._ledger is not None:
            self._ledger.retire(self._owner)

    @cached_property
    def mark(self) -> str:
        """What marks the callback's files in this folder; a name comes behind it."""
        return mark_of(self._owner, self.folder)

    def came_from(self, path: str, mark: str) -> bool:
        """Return whether ``path`` was written under ``mark``: the callback's, in the folder that it had before."""
        return self._mark_in(path).startswith(mark)

    def _mark_of(self, name: str) -> str:
        return self.mark + quote(name, safe="/=", errors="surrogatepass")

    def _mark_in(self, path: str) -> str:
        with contextlib.suppress(CheckpointError, OSError):
            header = self._io.header(path)
            return header.mark if header is not None else ""
        return ""

    def name_of(self, path: str) -> str | None:
        return relative_name(path, self.folder)

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder at ``path``, once what is being deleted is gone."""
        there = self._io.exists(path)  # a background writer ends its work to answer
        return there or (not self.remote and os.path.lexists(path))


def mark_of(owner: str, folder: str) -> str:
    """Return what marks the files of the callback ``owner`` in ``folder``."""
    place = folder if is_remote(folder) else os.path.realpath(folder)
    return hashlib.sha256(f"{owner}\0{place}".encode(errors="surrogatepass")).hexdigest()[:32] + "/"


def real_paths(paths: Collection[str]) -> set[str]:
    """Return ``paths`` with the links in their folders resolved, so that each file has one path."""
    local = [Path(path) for path in paths if not is_remote(path)]
    folders = {folder: folder.resolve() for folder in {path.parent for path in local}}
    return {*filter(is_remote, paths), *(str(folders[path.parent] / path.name) for path in local)}


def relative_name(path: str, folder: str) -> str | None:
    """Return ``path`` relative to ``folder``, with ``/``; None where it lies outside or is the folder itself."""
    root = PurePosixPath(folder.replace(os.sep, "/"))
    try:
        name = PurePosixPath(path.replace(os.sep, "/")).relative_to(root)
    except ValueError:
        return None
    return None if ".." in name.parts or not name.parts else str(name)


def run_folder(trainer: TrainerAPI) -> str:
    """Return the run's own folder: the first logger's ``log_dir``, else its name and version below its ``save_dir``, or
    below the Trainer's folder where it has none.
    """
    logger = trainer.loggers[0] if trainer.loggers else None
    if logger is None or logger.log_dir or not (logger.save_dir or logger.version):
        return trainer.log_dir or trainer.default_root_dir
    version = logger.version
    parts = (logger.name, f"version_{version}" if isinstance(version, int) else version)
    root = str(logger.save_dir or trainer.default_root_dir).rstrip("/")
    return "/".join((root, *(str(part) for part in parts if part not in (None, ""))))
