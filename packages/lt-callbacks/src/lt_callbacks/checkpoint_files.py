"""The folder of a run's checkpoints: what is there, and what is the run's own."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lt_callbacks.ledger import Ledger
from lt_core.atomic_folder import standing
from lt_core.checkpoint import CheckpointIO, clean_leftovers
from lt_core.errors import ConfigError

if TYPE_CHECKING:
    from lt_core.strategy import Strategy
    from lt_core.trainer import TrainerAPI

__all__ = ["CheckpointFiles", "absolute", "is_remote", "real_paths", "relative_name", "run_folder"]


def is_remote(path: str) -> bool:
    """Return whether ``path`` is a URL of another file system, such as ``s3://bucket/run``."""
    return "://" in path


def absolute(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a folder, so that it stays where it is when the process goes to another one."""
    text = os.fspath(path)
    return text if is_remote(text) else str(Path(text).expanduser().absolute())


class CheckpointFiles:
    """Looks after the files of one run in one folder; changes nothing that the run did not write.

    Args:
        folder: absolute path or URL.
        run_id: the run's id, which its resumed processes take over.
        io: what writes the files; asked for what is there in a remote folder.
        known: names, relative to the folder, that the run's saved state tells of.
    """

    def __init__(self, folder: str, run_id: str, io: CheckpointIO, known: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.remote = is_remote(folder)
        self._run_id = run_id
        self._io = io
        self._ledger = Ledger(None if self.remote else Path(folder))
        self._known = set(known) if self.remote else set()

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
        if self.remote:
            return ""
        try:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder) as file:
                file.write(b"1")
        except (OSError, ValueError) as error:
            return getattr(error, "strerror", None) or str(error)
        return ""

    def clean(self) -> None:
        """Delete what killed writes left behind, but for files that somebody still writes."""
        if not self.remote:
            clean_leftovers(self.folder)

    def record(self, path: str) -> None:
        """Note that the run is about to write ``path``."""
        name = self.name_of(path)
        if name is not None:
            self._known.add(name)
            with contextlib.suppress(OSError):  # the save itself, which comes now, tells what is wrong
                self._ledger.record(self._run_id, name)

    def owns(self, path: str) -> bool:
        """Return whether the run wrote ``path``, in this process or before it was resumed."""
        name = self.name_of(path)
        return name is not None and (name in self._known or self._ledger.owns(self._run_id, name))

    def name_of(self, path: str) -> str | None:
        """Return ``path`` relative to the folder, or None where it lies outside."""
        return relative_name(path, self.folder)

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder at ``path``, once what is being deleted is gone."""
        if self.remote:
            return self._io.exists(path)
        if not os.path.lexists(standing(path)):
            return False
        return self._io.exists(path) or os.path.lexists(standing(path))  # a background writer ends its work to answer


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
    """Return the run's own folder: the first logger's ``log_dir``, else ``save_dir/name/version`` of it."""
    logger = trainer.loggers[0] if trainer.loggers else None
    if logger is None or logger.log_dir or not logger.save_dir:
        return trainer.log_dir or trainer.default_root_dir
    version = logger.version
    parts = (logger.name, f"version_{version}" if isinstance(version, int) else version)
    return "/".join((str(logger.save_dir).rstrip("/"), *(str(part) for part in parts if part not in (None, ""))))
