"""Base of the loggers for tracking services."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal

from lt_core import CallbackBase
from lt_core.errors import ConfigError
from lt_core.plugins import install_hint
from lt_core.rank import process_rank
from lt_loggers.buffered import BufferedLogger
from lt_loggers.rows import Row
from lt_loggers.uploads import Upload, Uploads


class TrackerLogger(BufferedLogger):
    """Base of the trackers: sends rows in batches, keeps them while the service is unreachable, uploads checkpoints.

    The library is imported and the run opened when something is sent first, on rank 0. Rows that could not be sent wait
    in memory, and the pauses between tries grow: an unreachable server does not slow training down.

    Args:
        prefix: put before each metric's name, with a ``-`` between.
        log_model: which checkpoints to upload; see :class:`lt_loggers.uploads.Uploads`.
        flush_every: steps (or rows) between batches.
        flush_secs: seconds between batches, when the steps are slow.
    """

    def __init__(
        self, prefix: str, log_model: Literal["all"] | bool, flush_every: int = 1000, flush_secs: float = 5
    ) -> None:
        super().__init__(prefix, flush_every, flush_secs)
        self._uploads = Uploads(log_model)
        self._hparams_due = False

    def begin_anew(self) -> None:
        super().begin_anew()
        self._hparams_due, self._uploads = False, Uploads(self._uploads.log_model)

    def save(self) -> None:
        """Send all rows, unless a try failed a short while ago."""
        if not self._rows.is_waiting:
            super().save()

    def finalize(self, status: str) -> None:
        """Send the rest, even if the last try failed, and the kept checkpoints."""
        super().save()
        if status == "success" and not process_rank():
            self._send(self._uploads.at_end())

    def after_save_checkpoint(self, checkpoint_callback: CallbackBase) -> None:
        if not process_rank():
            self._send(self._uploads.after_save(checkpoint_callback))

    def state_dict(self) -> dict[str, Any]:
        """Return the run's id. Rows that a killed run sent after its checkpoint stay with the service."""
        return {"run_id": self.version, "step": self._rows.last_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the run of ``state``, unless this logger was given another one."""
        if state.get("run_id") is not None and self.version is None:
            self.use_version(state["run_id"])
            self._rows.last_step = state["step"]

    def _has_more(self) -> bool:
        return self._hparams_due

    def _write(self, rows: list[Row]) -> None:
        if self._hparams_due:
            self._send_hparams()
            self._hparams_due = False
        self._send_rows(rows)

    def _write_hparams(self) -> None:
        self._hparams_due = True
        self.save()

    def _send(self, uploads: list[Upload]) -> None:
        for upload in uploads:
            self._send_checkpoint(upload)
            self._uploads.done(upload)

    def _send_rows(self, rows: list[Row]) -> None:
        """Send rows; after each part that is safe call ``self._rows.drop(its length)``."""
        raise NotImplementedError(f"{type(self).__name__} must define _send_rows()")

    def _send_hparams(self) -> None:
        """Send :attr:`hparams`."""
        raise NotImplementedError(f"{type(self).__name__} must define _send_hparams()")

    def _send_checkpoint(self, upload: Upload) -> None:
        """Send a checkpoint; services without a place for them need not."""


class Nothing:
    """Stands in for a run on ranks other than 0: takes every attribute, call and item, and does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def __getitem__(self, key: Any) -> Any:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        """Nothing to keep."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Nothing to keep."""


def require(module: str, logger: str, extra: str) -> None:
    """Raise where the library of a tracker is not installed; imports nothing.

    Raises:
        ConfigError: with the command that installs it.
    """
    if find_spec(module) is None:
        raise ConfigError(f"{logger} needs {module}: {install_hint(f'lt-loggers[{extra}]')}", code="LT551")
