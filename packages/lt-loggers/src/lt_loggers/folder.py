"""Loggers whose runs are folders: ``save_dir/name/version_N``."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Sequence
from contextlib import suppress
from operator import index
from pathlib import Path, PurePath
from typing import Any

from lt_core.errors import ConfigError, ConfigTypeError
from lt_core.files.atomic_file import make_folder, sync_directory
from lt_core.logger import Logger
from lt_core.rank import process_rank
from lt_loggers.buffered import BufferedLogger
from lt_loggers.log_file import LogFile
from lt_loggers.mirror import Mirror
from lt_loggers.params import as_yaml


class FolderLogger(BufferedLogger):
    """Base of the loggers that write files.

    Making one touches no file. The folder is made by :meth:`claim_version` or with the first write, and made again
    where somebody removed it.

    Args:
        save_dir: folder of all experiments; a URL that fsspec knows (``s3://bucket/logs``) gets copies of
            the files in a local folder, with each write.
        name: of the experiment, the folder below; may be empty.
        version: of the run: a number N for the folder ``version_N``, or the folder's name, which may be empty; each fit
            has it with this logger. None takes the next number, for each fit that continues none.
        sub_dir: folder below that one for this logger's files.
        prefix: put before each metric's name, with a ``-`` between.
        flush_every: steps between writes.
        flush_secs: seconds between writes, when the steps are slow.
    """

    NAME_HPARAMS_FILE = "hparams.yaml"

    def __init__(
        self,
        save_dir: str | os.PathLike[str],
        name: str | None,
        version: int | str | None,
        sub_dir: str | os.PathLike[str] | None,
        prefix: str,
        flush_every: int,
        flush_secs: float,
    ) -> None:
        super().__init__(prefix, flush_every, flush_secs)
        self._save_dir = _expanded(save_dir)
        self._lt_mirror = Mirror(self._save_dir) if "://" in self._save_dir else None
        self._lt_from = Path().absolute()  # files stay there when the process goes to another folder
        self._name = _part_of_path("name", name or "")
        self._sub_dir = None if sub_dir is None else _part_of_path("sub_dir", os.fspath(sub_dir))
        given: Any = version  # a number may be numpy's
        self._lt_explicit = given is not None
        self._version = index(given) if hasattr(given, "__index__") else given and _part_of_path("version", given)
        self._lt_claimed: Path | None = None
        self._lt_resumed: dict[str, Any] = {}

    # ---- where -------------------------------------------------------------------------------------------------------

    @property
    def save_dir(self) -> str:
        return self._save_dir

    @property
    def name(self) -> str:
        return self._name

    @property
    def root_dir(self) -> str:
        return self._lt_joined(self.save_dir, self.name)

    @property
    def version(self) -> int | str:
        if self._version is None:
            self._version = self._lt_next_version()
        return self._version

    @property
    def sub_dir(self) -> str | None:
        """The folder below the run's own that holds this logger's files."""
        return self._sub_dir

    @property
    def log_dir(self) -> str:
        version = self.version
        return self._lt_joined(
            self.root_dir, version if isinstance(version, str) else f"version_{version}", self.sub_dir
        )

    @property
    def files_dir(self) -> Path:
        """Where this logger writes: :attr:`log_dir`, or the local folder whose files are copied there."""
        return Path(self.log_dir) if self._lt_mirror is None else self._lt_mirror.fetch(self.log_dir)

    def _lt_joined(self, *parts: str | None) -> str:
        kept = filter(None, parts)
        return str(Path(self._lt_from, *kept)) if self._lt_mirror is None else posixpath.join(*kept)

    def _lt_run_dir(self) -> Path:
        """Return the run's folder, with those of all its loggers."""
        folder = self.files_dir
        return [folder, *folder.parents][len(PurePath(self.sub_dir or "").parts)]

    def _lt_next_version(self) -> int:
        root = self.root_dir
        return next_version(root) if self._lt_mirror is None else _version_after(self._lt_mirror.names(root))

    def claim_version(self, beside: Sequence[Logger] = ()) -> int | str:
        """Make this run's folder: the one of a logger ``beside`` with the same root, else the next free one."""
        if self._version is None and not process_rank():
            root = self.root_dir
            same = (other for other in beside if type(other) is not type(self) and other.root_dir == root)
            self._version = next((other.version for other in same if other.log_dir), None)
            while self._version is None:
                try:
                    self._version = self._lt_next_version()
                    if self.version != self._version:  # a subclass has its own
                        break
                    folder = self._lt_run_dir()
                    make_folder(folder.parent)
                    folder.mkdir()
                except OSError as error:
                    if self._version is None or not self._lt_run_dir().is_dir():
                        raise ConfigError(
                            f"{type(self).__name__}(save_dir={self.save_dir!r}): no folder can be made in "
                            f"{self.root_dir}: {error.strerror or error}. Give a folder that you may write to by "
                            "save_dir= or Trainer(default_root_dir=...), or take Trainer(logger=False).",
                            code="LT559",
                        ) from error
                    self._version = None  # another job was quicker
                else:
                    self._lt_claimed = folder
                    sync_directory(folder.parent)
        return self.version

    def begin_anew(self) -> None:
        super().begin_anew()
        if not self._lt_explicit:
            self._version = None
        self._lt_claimed, self._lt_resumed = None, {}

    def use_version(self, version: int | str) -> None:
        """Take this version; a folder that was made for another one is removed while it is empty."""
        self._version = version if isinstance(version, int) else _part_of_path("version", version)
        if self._lt_claimed is not None and self._lt_claimed != self._lt_run_dir():
            with suppress(OSError):  # where somebody has put something there, it stays
                self._lt_claimed.rmdir()
            self._lt_claimed = None

    # ---- hyperparameters ---------------------------------------------------------------------------------------------

    def _lt_write_hparams(self) -> None:
        self.claim_version()
        LogFile(self.files_dir / self.NAME_HPARAMS_FILE).replace(as_yaml(self.hparams).encode())

    def save(self) -> None:
        super().save()
        if process_rank() or self._version is None:  # a copy, or a look, takes no version
            return
        folder = self.files_dir
        if folder.is_dir() and not (folder / self.NAME_HPARAMS_FILE).exists():
            self._lt_write_hparams()
        if self._lt_mirror is not None:
            self._lt_mirror.send()

    # ---- resume ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the version, the last step, and where the files end; nothing on ranks that have no files."""
        if process_rank():
            return {}
        return {"version": self.version, "step": self._lt_rows.last_step, "files": self._lt_resumed or self._lt_ends()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the version and the files of ``state``; they are cut when the first row is written.

        A logger that was given another version starts there instead, and one of another kind ignores the files.
        """
        if "files" not in state or (self._lt_explicit and self.version != state["version"]):
            return
        self.use_version(state["version"])
        self._lt_rows.last_step = state["step"]
        self._lt_resumed = dict(state["files"])

    def _lt_has_more(self) -> bool:
        return bool(self._lt_resumed)

    def _lt_ends(self) -> dict[str, Any]:
        """Return where this logger's files end, as plain data; up to there they are on disk."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the claim: a copy in another process must not remove the folder."""
        return {**super().__getstate__(), "_lt_claimed": None}


def next_version(root_dir: str | os.PathLike[str]) -> int:
    """Return one more than the largest N of the folders ``version_N`` in ``root_dir``."""
    try:
        return _version_after([entry.name for entry in Path(root_dir).iterdir()])
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _version_after(names: list[str]) -> int:
    found = re.findall(r"^version_(\d+)$", "\n".join(names), re.MULTILINE)
    return max(map(int, found), default=-1) + 1


def _expanded(save_dir: str | os.PathLike[str]) -> str:
    folder = os.fspath(save_dir)
    return folder if "://" in folder else str(Path(os.path.expandvars(folder)).expanduser())


def _part_of_path(argument: str, given: str) -> str:
    if not isinstance(given, str):
        raise ConfigTypeError(f"{argument}={given!r:.60}: expected a folder's name, or a whole number.", code="LT179")
    part = PurePath(given)
    if part.is_absolute() or part.drive or ".." in part.parts:
        raise ConfigError(
            f"{argument}={given!r} must stay below save_dir: take one without a leading '/' and without '..', and say "
            "by save_dir= where the files go.",
            code="LT548",
        )
    return given
