"""Base of the loggers for tracking services."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from importlib.util import find_spec
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import current_thread
from time import monotonic, time
from typing import Any, Literal
from uuid import uuid4

from lt_core import CallbackBase
from lt_core.errors import ConfigError, warn
from lt_core.logger import DummyExperiment, Logger
from lt_core.plugins import install_hint
from lt_core.rank import process_rank
from lt_loggers.buffered import BufferedLogger, losing, unwritten
from lt_loggers.media import Media, as_media
from lt_loggers.params import plain
from lt_loggers.rows import Row
from lt_loggers.sender import Sender
from lt_loggers.uploads import Upload, Uploads

__all__ = ["TrackerLogger"]

_IN_MID_RUN = 5.0
"""Seconds that a call waits in the middle of a run: a scheduler that ends the job often gives 30 for the checkpoint."""

_UPLOAD = 1e6
"""Bytes of a checkpoint for which the end of a run waits one more second."""


class TrackerLogger(BufferedLogger):
    """Base of the trackers: sends rows in batches by a thread, keeps them while the service is unreachable, uploads
    checkpoints.

    The library is imported and the run opened when something is sent first, on rank 0. Rows that could not be sent wait
    in memory, and the pauses between tries grow: an unreachable server does not slow training down. Nor does one that
    is silent: start and end of a run wait :attr:`patience` seconds for it, its middle less.

    All that talks to the server is called in the thread, one after another, as the logger is in that run: the answer to
    an earlier fit finds the earlier run (:class:`~lt_loggers.sender.Sender`). What a server refuses is sent with the
    next rows, as another fit begins and as the process ends.

    Args:
        prefix: put before each metric's name, with a ``-`` between.
        log_model: which checkpoints to upload; see :class:`lt_loggers.uploads.Uploads`.
        name: of the project.
        version: id of an earlier run, to continue it; None makes one.
        flush_every: steps (or rows) between batches.
        flush_secs: seconds between batches, when the steps are slow.

    Attributes:
        patience: seconds without an answer after which nothing waits for the server any more.
    """

    patience: float = 30.0

    _lt_address = "its server"  # as messages name it
    _save_dir: str | None = None

    def __init__(
        self,
        prefix: str,
        log_model: Literal["all"] | bool,
        name: str | None = None,
        version: str | None = None,
        flush_every: int = 1000,
        flush_secs: float = 5,
    ) -> None:
        super().__init__(prefix, flush_every, flush_secs)
        self._lt_uploads = Uploads(log_model)
        self._lt_sent_hparams = self.hparams
        self._name, self._version, self._lt_given = name, version, version
        self._experiment: Any = None
        self._lt_own_sender: Sender | None = None

    # ---- where -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """The project, or what the service calls a group of runs."""
        return self._name

    @property
    def version(self) -> str | None:
        """The run's id."""
        return self._version

    @property
    def save_dir(self) -> str | None:
        """The folder of the service's files on this machine, or of the run's checkpoints; None where there is none."""
        return self._save_dir

    @property
    def root_dir(self) -> str | None:
        return None if self.save_dir is None else str(Path(self.save_dir, self.name or ""))

    @property
    def log_dir(self) -> str | None:
        return str(Path(self.root_dir, self.version)) if self.root_dir and self.version else None

    def claim_version(self, beside: Sequence[Logger] = ()) -> str | None:
        """Choose the id; no server is asked, so that a run has its folder also while the service is unreachable."""
        if self._version is None and not process_rank():
            self._version = self._lt_new_version()
        return self._version

    def use_version(self, version: int | str) -> None:
        self._version = str(version)

    @property
    def _lt_sender(self) -> Sender:
        if self._lt_own_sender is None or self._lt_own_sender.process != os.getpid():
            self._lt_own_sender = Sender(self)
        return self._lt_own_sender

    @property
    def experiment(self) -> Any:
        """The library's own run or client, opened when first asked for; without effect on other ranks, and until a
        silent server answers.
        """
        if process_rank():
            return Nothing()
        if self._experiment is None:
            if self._lt_sender.thread is current_thread():
                unwritten.add(self)
                self._experiment = self._lt_open()
            else:
                self._lt_ask(lambda me: me.experiment)
        return self._experiment or Nothing()

    def begin_anew(self) -> None:
        """Leave the run, and open another one next; one that the user opened or named goes on."""
        with suppress(Exception):  # of _leave()
            self._lt_ask(TrackerLogger._lt_part)
        before = self._lt_sender
        self.__dict__ = {**self.__dict__}  # the calls of the earlier run keep the one before
        self._lt_own_sender, self._lt_rows = Sender(self, before), copy(self._lt_rows)
        self._lt_uploads = Uploads(self._lt_uploads.log_model)
        self._lt_rows.last_step = -1
        self.hparams = self._lt_sent_hparams = {}
        if self._lt_given is None:
            self._version = self._experiment = None

    def log_metrics(self, metrics: Mapping[str, Any], step: float | None = None) -> None:
        """Keep one row; the thread sends it when ``flush_every`` steps or ``flush_secs`` have passed.

        Raises:
            LogError: for a name or value that cannot be taken.
            Exception: where the last sending failed; this row was not taken then, earlier ones are kept.
        """
        unwritten.add(self)
        self._lt_sender.raise_failure()
        if self._lt_rows.add(metrics, step):
            self._lt_ask(TrackerLogger._lt_send_rest, 0)

    def log_media(self, name: str, value: Any, step: int | None = None) -> bool:
        media = as_media(value)
        if media is None or process_rank():
            return media is not None
        folder, send = TemporaryDirectory(), None
        try:
            send = self._lt_media(name, media, step, Path(folder.name))
        finally:
            if send is None:
                folder.cleanup()

        def call(me: Any) -> None:
            with folder:
                me._lt_send_rest()  # services draw points in the order in which they come
                send(me)

        return send is not None and self._lt_ask(call, _IN_MID_RUN) is not None

    def save(self) -> None:
        """Send all rows, unless a try failed a short while ago."""
        if not self._lt_rows.is_waiting:
            self._lt_ask(TrackerLogger._lt_send_rest, _IN_MID_RUN)

    def finalize(self, status: str) -> None:
        """Send the rest, even if the last try failed, and the kept checkpoints; tell of what could not be sent."""
        self._lt_sender.end = status, self._lt_uploads.at_end() if status == "success" else []
        done = False
        try:
            done = self._lt_ask(TrackerLogger._lt_send_all)
        finally:
            if not done:
                warn(
                    f"{type(self).__name__}: {len(self._lt_sender.rows)} rows are not sent, or something else is not "
                    f"(hyperparameters, media, checkpoints, the end of the run), as {self._lt_address} is silent or "
                    "refuses. It is tried again when another fit begins and when this process ends. A run that is "
                    "resumed from a checkpoint sends the rows that it holds.",
                    code="LT561",
                )

    def _lt_finish(self) -> None:
        if not self._lt_ask(lambda me: [me._lt_send_all(), me._lt_exit()]):
            raise TimeoutError(f"{self._lt_address} does not answer")

    def after_save_checkpoint(self, checkpoint_callback: CallbackBase) -> None:
        uploads = self._lt_uploads.after_save(checkpoint_callback)
        if uploads and self._lt_sender.silence() < self.patience:  # else they come with the next ones
            self._lt_ask(lambda me: me._lt_send(uploads))

    def state_dict(self) -> dict[str, Any]:
        """Return the run's id, and what is not sent. Rows that a killed run sent after its checkpoint stay with the
        service.
        """
        state: dict[str, Any] = {"run_id": self.version, "step": self._lt_rows.last_step}
        if self.hparams is not self._lt_sent_hparams:
            state["hparams"] = plain(self.hparams)
        if rows := [*self._lt_sender.rows, *self._lt_rows.read()]:
            state["unsent"] = rows
        self._lt_sender.known_until = time()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the run of ``state``, unless this logger was given another one."""
        run = state.get("run_id")
        if run and self._lt_given is None and self._version not in (None, run):  # opened before, or of an earlier fit
            hparams = self.hparams
            self.begin_anew()
            if self._lt_in_fit:
                self.hparams = hparams
        self._version = self._version or run
        if self.version == run:
            self._lt_rows.last_step = max(self._lt_rows.last_step, state.get("step", -1))
            sender = self._lt_sender
            sender.rows += [row for row in state.get("unsent", []) if row[1] > sender.known_until]
            sender.known_until = time()
            if "hparams" in state:
                self.hparams = {**state["hparams"], **self.hparams}
            unwritten.add(self)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the thread and the run: a copy in another process opens it by its id."""
        with suppress(Exception):  # what cannot be sent stays here
            self.save()
        return {**self.__dict__, "_lt_own_sender": None, "_experiment": None}

    # ---- by the thread -----------------------------------------------------------------------------------------------

    def _lt_ask(self, call: Callable[[Any], Any], seconds: float = inf) -> bool:
        """Have the thread make ``call`` after all others, and raise what it raises; return whether it is done in time.

        Args:
            call: what to do, on rank 0.
            seconds: of silence after which it is left to the thread, :attr:`patience` at most; 0: at once.
        """
        if process_rank():
            self._lt_rows.drop()
            return True
        sender = self._lt_sender
        sender.rows += self._lt_rows.take()
        future = sender.put(call)
        if seconds and sender.wait(future, min(seconds, self.patience)):
            sender.raise_failure()
            return True
        if not sender.told and sender.silence() >= self.patience:
            sender.told = True
            warn(
                f"{type(self).__name__}: {self._lt_address} has not answered for {self.patience:g} s. The run goes on; "
                "rows are kept and sent when it answers, and calls of logger.experiment do nothing where no run is "
                "open yet.",
                code="LT560",
            )
        return False

    def _lt_send_rest(self) -> None:
        sender, hparams = self._lt_sender, self.hparams
        try:
            if hparams is not self._lt_sent_hparams:
                self._lt_send_hparams()
                self._lt_sent_hparams = hparams
            for count in self._lt_send_rows(list(sender.rows)) if sender.rows else ():
                del sender.rows[:count]
                sender.heard = monotonic()
        except BaseException:
            self._lt_rows.postpone()
            raise
        self._lt_rows.pause = 0.0

    def _lt_send_all(self) -> None:
        """Send the rest, and the end of the run where it has come."""
        self._lt_send_rest()
        if (end := self._lt_sender.end) is not None:
            status, uploads = end
            try:
                self._lt_send(uploads)
            finally:
                self._lt_close(status)
            if self._lt_sender.end is end:
                self._lt_sender.end = None

    def _lt_part(self) -> None:
        """Send the rest, or say that it is lost, as another run begins."""
        with losing(self):
            self._lt_send_all()
        self._lt_leave()

    def _lt_close(self, status: str) -> None:
        """Note the end of the run, all of which is sent; it may be opened again."""

    def _lt_leave(self) -> None:
        """Close the run for good, as another one begins."""

    def _lt_exit(self) -> None:
        """Close the run as the process ends, where the client does not find a run that a thread has opened."""

    def _lt_send(self, uploads: list[Upload]) -> None:
        while uploads:
            upload = uploads[0]
            size = sum(file.stat().st_size for file in (upload.path, *upload.path.rglob("*")))
            self._lt_sender.heard = monotonic() + size / _UPLOAD
            self._lt_send_checkpoint(upload)
            self._lt_uploads.done(uploads.pop(0))

    def _lt_write_hparams(self) -> None:
        self._lt_ask(TrackerLogger._lt_send_rest)

    def _lt_new_version(self) -> str:
        return uuid4().hex

    def _lt_open(self) -> Any:
        """Open the run; return :attr:`experiment`."""

    def _lt_send_rows(self, rows: list[Row]) -> Iterator[int]:
        """Send rows; yield the length of each part that is safe."""
        raise NotImplementedError

    def _lt_media(self, name: str, media: Media, step: int | None, folder: Path) -> Any:
        """Return what sends a medium, whose files are in ``folder``: a function of a logger; None where none can."""

    def _lt_send_hparams(self) -> None:
        """Send :attr:`hparams`; services without a place for them need not."""

    def _lt_send_checkpoint(self, upload: Upload) -> None:
        """Send a checkpoint; services without a place for them need not."""


class Nothing(DummyExperiment):
    """Stands in for a run on ranks other than 0: takes every attribute, call and item, and does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self


def require(module: str, logger: str, extra: str) -> None:
    """Raise where the library of a tracker is not installed; imports nothing.

    Raises:
        ConfigError: with the command that installs it.
    """
    if not find_spec(module):
        hint = install_hint(f"lt-loggers[{extra}]")
        raise ConfigError(f"{logger} needs {module}: {hint}; logger='csv' needs no further package.", code="LT551")
