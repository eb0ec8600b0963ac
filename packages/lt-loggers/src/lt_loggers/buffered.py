"""Base of all loggers here: rows are kept in memory and written in batches, on rank 0."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lt_core.errors import ConfigTypeError, warn
from lt_core.logger import Logger
from lt_core.rank import process_rank
from lt_loggers.params import as_dict
from lt_loggers.rows import Row, Rows

unwritten: set[BufferedLogger] = set()
"""Loggers that may keep something; it is written when the process ends, unless somebody saves it before."""


class BufferedLogger(Logger):
    """Base of our loggers: keeps rows, and hands them to :meth:`_lt_write` when it is time.

    Args:
        prefix: put before each metric's name, with ``LOGGER_JOIN_CHAR`` between.
        flush_every: steps between writes.
        flush_secs: seconds between writes, when the steps are slow.
    """

    LOGGER_JOIN_CHAR = "-"

    def __init__(self, prefix: str, flush_every: int, flush_secs: float) -> None:
        if not hasattr(flush_every, "__index__"):
            raise ConfigTypeError(
                f"{type(self).__name__}: expected whole steps between writes; received {flush_every!r:.60}.",
                code="LT179",
            )
        self._lt_rows = Rows(prefix and prefix + self.LOGGER_JOIN_CHAR, flush_every, flush_secs, self._lt_rename)
        self.hparams: dict[str, Any] = {}

    @property
    def takes_tensors(self) -> bool:  # type: ignore[override]  # a subclass may say it as others do
        """Whether :meth:`log_metrics` is ours: one of a subclass's own gets numbers."""
        return type(self).log_metrics.__module__.startswith("lt_loggers.")

    def begin_anew(self) -> None:
        with losing(self):
            self.save()
        self._lt_rows.drop()
        self._lt_rows.last_step = -1
        self.hparams = {}

    def log_metrics(self, metrics: Mapping[str, Any], step: float | None = None) -> None:
        """Keep one row; written when ``flush_every`` steps or ``flush_secs`` have passed, and by :meth:`save`.

        Raises:
            LogError: for a name or value that cannot be taken.
            OSError: where a write was due and failed; this row was not taken then, earlier ones are kept.
        """
        unwritten.add(self)
        if self._lt_rows.add(metrics, step):
            try:
                self.save()
            except BaseException:
                self._lt_rows.take_back()
                raise

    def log_hyperparams(
        self, params: Any = None, metrics: Mapping[str, Any] | None = None, step: float | None = None
    ) -> None:
        """Add hyperparameters to those known so far (a dict, Namespace or dataclass, nested), and write them.

        Args:
            params: names and values; None: only those known so far.
            metrics: numbers that they led to, logged as well.
            step: where on the x axis; None is where the last row was.
        """
        unwritten.add(self)
        self.hparams = {**self.hparams, **as_dict(params or {})}
        if metrics:
            self.log_metrics(metrics, max(0, self._lt_rows.last_step) if step is None else step)
        if not process_rank():
            self._lt_write_hparams()

    def save(self) -> None:
        """Write all rows.

        Raises:
            OSError: naming the file; the rows are kept and come with the next write.
        """
        if not process_rank() and (len(self._lt_rows) or self._lt_has_more()):
            try:
                self._lt_write(self._lt_rows.read())
            except BaseException:
                self._lt_rows.postpone()
                raise
        self._lt_rows.drop()
        unwritten.discard(self)

    def __getstate__(self) -> dict[str, Any]:
        """Write the rows first: a copy in another process must not write them again."""
        self.save()
        return self.__dict__

    def finalize(self, status: str) -> None:
        """Write the rest."""
        self.save()

    def _lt_rename(self, name: str) -> str:
        """Return how ``name`` is called in this logger, or raise where it cannot be taken."""
        return name

    def _lt_has_more(self) -> bool:
        """Whether something beside rows waits to be written."""
        return False

    def _lt_write(self, rows: list[Row]) -> None:
        """Write rows; written ones must stay so even if this is called again after an error."""
        raise NotImplementedError

    def _lt_write_hparams(self) -> None:
        """Write :attr:`hparams`."""


@contextmanager
def losing(logger: Logger) -> Iterator[None]:
    """Say that what ``logger`` kept is lost, where it cannot be written."""
    try:
        yield
    except Exception as error:
        warn(
            f"{type(logger).__name__}: what was logged last could not be written, and is lost: "
            f"{type(error).__name__}: {error}",
            code="LT563",
        )


def _finish_all() -> None:
    for logger in [*unwritten]:
        with losing(logger):
            getattr(logger, "_lt_finish", logger.save)()  # a tracker's, which closes its run too


threading._register_atexit(_finish_all)  # type: ignore[attr-defined]  # atexit's own come when no thread can start
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=unwritten.clear)  # they are the parent's
