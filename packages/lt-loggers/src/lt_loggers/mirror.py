"""A remote folder of log files, copied from a local one, since remote files cannot be appended to."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from functools import cached_property
from pathlib import Path
from typing import Any

from lt_core.errors import ConfigError
from lt_core.rank import process_rank


class Mirror:
    """Copies files that have changed to where fsspec finds ``url``, and an earlier process's files from there.

    Args:
        url: the remote folder, ``s3://bucket/logs``.

    Raises:
        ConfigError: where fsspec does not know the protocol, or lacks its package.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._sent: dict[Path, tuple[int, int]] = {}
        self._fetched: set[Path] = set()
        _ = self._remote

    @cached_property
    def _remote(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]

        try:
            system, path = url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise ConfigError(
                f"save_dir={self.url!r}: fsspec cannot open it: {error}. Install the package of this protocol, or give "
                "a local folder.",
                code="LT547",
            ) from error
        return system, path

    @cached_property
    def folder(self) -> Path:
        """The local folder; it goes when this process ends."""
        made = tempfile.mkdtemp(prefix="lt-logs-")
        weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        return Path(made)

    def names(self, url: str) -> list[str]:
        """Return the names in a remote folder, this one or below it."""
        system, path = self._remote
        place = path + url.removeprefix(self.url)
        system.invalidate_cache()
        return [Path(found).name for found in system.ls(place, detail=False)] if system.isdir(place) else []

    def fetch(self, url: str) -> Path:
        """Return the local folder of a remote one; rank 0 copies log files of an earlier process there, once."""
        system, path = self._remote
        below = url.removeprefix(self.url)
        folder = Path(f"{self.folder}{below}")
        if folder not in self._fetched and not process_rank():
            self._fetched.add(folder)
            for name in self.names(url):
                source, target = f"{path}{below}/{name}", folder / name
                if not name.endswith(".ckpt") and system.isfile(source) and not target.exists():
                    folder.mkdir(parents=True, exist_ok=True)
                    system.get_file(source, str(target))
                    self._sent[target] = _state_of(target)
        return folder

    def send(self) -> None:
        """Copy the files that changed since the last call.

        Raises:
            OSError: where that fails; the next call tries again.
        """
        system, path = self._remote
        for file in sorted(self.folder.rglob("*")):
            state = _state_of(file)
            if file.is_file() and self._sent.get(file) != state:
                target = f"{path}/{file.relative_to(self.folder).as_posix()}"
                system.makedirs(target.rpartition("/")[0], exist_ok=True)
                system.put_file(str(file), target)
                self._sent[file] = state

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process has a local folder of its own."""
        return {"url": self.url, "_sent": {}, "_fetched": set()}


def _state_of(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_mtime_ns, found.st_size
