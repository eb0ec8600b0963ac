"""Checkpoints written locally and uploaded in the background, with a rule for the remote files that stay."""

from __future__ import annotations

import math
import os
import shutil
import threading
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Literal

from lt_checkpoint import AsyncCheckpointIO
from lt_checkpoint.remote_file import remove_remote, write_remote
from lt_checkpoint.wrapping import Wrapping
from lt_core.checkpoint import CheckpointIO, is_remote
from lt_core.errors import ConfigError, warn

__version__ = version("lt-uploads")

__all__ = ["UploadingCheckpointIO"]

StrPath = str | os.PathLike[str]

_LONGEST_PAUSE = 60.0
"""Seconds between two tries, at most."""


class UploadingCheckpointIO(AsyncCheckpointIO):
    """Writes checkpoints here, and has a thread upload each file once it is complete; training never waits for it.

    ``Trainer(plugins=UploadingCheckpointIO("s3://bucket/run"))``. A file lies in the folder of the URL under its own
    name: complete or not there; an older file of the name stays until then. A run ends when all is uploaded. An upload
    that fails is tried again; one that goes on failing is reported once, is in :attr:`upload_errors` by its URL, and
    protects the file that it would have replaced. A newer upload than one that waits under the same name
    takes its place. Checkpoints that are folders (sharded ones) are not uploaded. Of files of one name in two folders
    the one written last is there. A resumed process does not send the uploads that a killed one had left.

    Args:
        url: of the folder, as fsspec knows it (``s3://``, ``gs://``, ``memory://``, a path...).
        keep: remote files: ``"same"`` as here, so that a ``ModelCheckpoint`` decides (its best k, its last one),
            ``"all"``, or a number: so many of the newest that this process wrote, whatever is deleted here; last.ckpt
            and other second names come besides.
        retries: how often an upload is tried again.
        pause: seconds before the first of these; each further one waits twice as long, a minute at most.
        storage_options: arguments of fsspec's file system.
        checkpoint_io: writes and reads local files; by default a :class:`~lt_checkpoint.TorchCheckpointIO`.
        max_memory: bytes that a copy may take (:class:`~lt_checkpoint.AsyncCheckpointIO`).

    Raises:
        ConfigError: for a rule that there is not.
    """

    def __init__(
        self,
        url: str,
        *,
        keep: Literal["same", "all"] | int = "same",
        retries: int = 6,
        pause: float = 1.0,
        storage_options: Mapping[str, Any] | None = None,
        checkpoint_io: CheckpointIO | None = None,
        max_memory: float = math.inf,
    ) -> None:
        if isinstance(keep, bool) or not (keep in ("same", "all") or (isinstance(keep, int) and keep >= 1)):
            raise ConfigError(
                f"UploadingCheckpointIO(keep={keep!r}): expected 'same' (as here), 'all', or a number from 1 on.",
                code="LT419",
            )
        uploads = _Uploads(url.rstrip("/"), keep, retries, pause, dict(storage_options or {}))
        super().__init__(_Announcing(uploads, checkpoint_io), max_memory=max_memory)
        self._uploads = uploads

    @property
    def upload_errors(self) -> dict[str, Exception]:
        """Why files are not uploaded, by URL; empty where all are."""
        return dict(self._uploads.errors)

    def wait_for_uploads(self) -> None:
        """Return when everything that was saved so far is uploaded, or has failed."""
        self.wait()
        self._uploads.finish()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._uploads = self.io.uploads  # type: ignore[attr-defined]


class _Announcing(Wrapping):
    """Uploads complete files."""

    def __init__(self, uploads: _Uploads, checkpoint_io: CheckpointIO | None) -> None:
        super().__init__(checkpoint_io)
        self.uploads = uploads

    def save_checkpoint(self, checkpoint: Mapping[str, Any], path: StrPath, storage_options: Any = None) -> None:
        super().save_checkpoint(checkpoint, path, storage_options)
        if Path(path).name != "rest.ckpt":  # a part of a folder of shards
            self.uploads.add(path)

    def remove_checkpoint(self, path: StrPath) -> None:
        super().remove_checkpoint(path)
        self.uploads.removed(path)

    def point_last(self, target: StrPath, link: StrPath) -> None:
        super().point_last(target, link)
        self.uploads.add(link, counts=False)

    def add_name(self, target: StrPath, name: StrPath) -> None:
        super().add_name(target, name)
        self.uploads.add(name, counts=False)

    def teardown(self) -> None:
        self.uploads.finish()
        super().teardown()


class _Uploads:
    """A queue, and the thread that works through it; the thread lives while there is something to do."""

    def __init__(self, url: str, keep: str | int, retries: int, pause: float, options: dict[str, Any]) -> None:
        self._settings = url, keep, retries, pause, options
        self.errors: dict[str, Exception] = {}
        self._start()

    def _start(self) -> None:
        self._url, self._keep, self._retries, self._pause, self._options = self._settings
        self._lt_jobs: dict[str, IO[bytes] | None] = {}  # files to be uploaded, by URL; None: to be deleted
        self._there: list[str] = []  # uploaded and counted, the oldest first
        self._source: dict[str, str] = {}  # of which file here each URL is
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._lt_process = os.getpid()
        self._failed = False

    def add(self, path: StrPath, *, counts: bool = True) -> None:
        """Have the file at ``path``, which is complete, uploaded."""
        if is_remote(path) or not Path(path).is_file():
            return
        url = self._url_of(path)
        self._source[url] = os.fspath(path)
        self._put(url, Path(path).open("rb"))  # noqa: SIM115  # open: it can be read when its name is gone
        if counts and isinstance(self._keep, int):
            self._there = [*(other for other in self._there if other != url), url]
            while len(self._there) > self._keep:
                self._put(self._there.pop(0), None)

    def removed(self, path: StrPath) -> None:
        """The file at ``path`` is deleted here."""
        url = self._url_of(path)
        if self._keep == "same" and not is_remote(path) and self._source.get(url, os.fspath(path)) == os.fspath(path):
            self._put(url, None)

    def finish(self) -> None:
        """Return when the queue is empty."""
        thread = self._thread if self._lt_process == os.getpid() else None
        if thread is not None:
            thread.join()

    def _url_of(self, path: StrPath) -> str:
        return f"{self._url}/{Path(path).name}"

    def _put(self, url: str, file: IO[bytes] | None) -> None:
        """Add a job, in place of an older one for the same URL."""
        if self._lt_process != os.getpid():
            self._start()  # a forked child: the thread is its parent's
        with self._lock:
            _close(self._lt_jobs.pop(url, None))
            self._lt_jobs[url] = file
            if self._thread is None:
                # no daemon: Python waits at its end until all is uploaded
                self._thread = threading.Thread(target=self._work, name="lt-upload")
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._lt_jobs:
                    self._thread = None
                    return
                # nothing is deleted before a newer file has arrived
                url = next((url for url, file in self._lt_jobs.items() if file is not None), next(iter(self._lt_jobs)))
                file = self._lt_jobs.pop(url)
            try:
                self._lt_do(url, file)
            finally:
                _close(file)

    def _lt_do(self, url: str, file: IO[bytes] | None) -> None:
        if file is None and self._failed:
            return  # nothing old goes before the new is there
        error = self._tried(url, file)
        if file is not None:
            self._failed = error is not None
        self.errors.pop(url, None)
        if error is None:
            return
        if not self.errors:
            what = "uploaded" if file is not None else "deleted"
            warn(
                f"{url} is not {what} after {self._retries + 1} tries: {str(error).rstrip('.')}. Training goes on, "
                "the files here are complete, and older ones stay there. Further ones are tried, and are in "
                "UploadingCheckpointIO.upload_errors where they fail.",
                code="LT420",
            )
        self.errors[url] = error

    def _tried(self, url: str, file: IO[bytes] | None) -> Exception | None:
        """Do a job, again where it fails; return the last error."""
        error: Exception | None = None
        for again in range(self._retries + 1):
            if again:
                threading.Event().wait(min(self._pause * 2 ** (again - 1), _LONGEST_PAUSE))
            try:
                if file is None:
                    remove_remote(url, self._options)
                else:
                    write_remote(url, partial(_copy, file), self._options)
            except Exception as failed:
                error = failed
            else:
                return None
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the settings alone: thread and queue stay in their process."""
        return _Uploads, self._settings


def _copy(source: IO[bytes], there: IO[bytes]) -> None:
    source.seek(0)
    shutil.copyfileobj(source, there, 1 << 20)


def _close(file: IO[bytes] | None) -> None:
    if file is not None:
        file.close()
