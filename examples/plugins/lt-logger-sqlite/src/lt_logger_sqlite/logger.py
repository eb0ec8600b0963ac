"""The logger. Read it as an example: each member of ``lt_core.logger.Logger`` that it overrides says what it is for."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from time import time
from typing import Any

from lt_core.hparams import plain_hparams
from lt_core.logger import Logger
from lt_core.rank import process_rank
from lt_loggers.media import as_media
from lt_loggers.media_files import media_bytes

__all__ = ["SQLiteLogger"]

_TABLES = """
create table if not exists runs (run integer primary key, started real, status text, hparams text);
create table if not exists metrics (
    id integer primary key, run integer, call integer, step real, time real, name text, value real
);
create table if not exists media (
    id integer primary key, run integer, step integer, name text, suffix text, content blob
);
create index if not exists metrics_by_name on metrics (name, run);
"""


class SQLiteLogger(Logger):
    """Writes metrics, hyperparameters and media of all runs into one SQLite file.

    Args:
        save_dir: folder of the file; this is how ``Trainer(logger="sqlite")`` calls.
        name: of the file, without its suffix.
        version: number of an earlier run, to add to it; None is a new run.
        flush_every: calls of ``log_metrics`` that are written together.
    """

    def __init__(
        self,
        save_dir: str | os.PathLike[str],
        name: str = "runs",
        version: int | None = None,
        flush_every: int = 100,
    ) -> None:
        # Making a logger touches no file: every rank makes one, and only rank 0 writes.
        self._save_dir, self._name, self._run = os.fspath(save_dir), name, version
        self._flush_every = flush_every
        self._pending: list[tuple[int, float, float, str, float]] = []
        self._calls = 0
        self._resume_at: dict[str, int] | None = None

    # ---- which run ---------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._name

    @property
    def version(self) -> int | None:
        return self._run

    @property
    def save_dir(self) -> str:
        return self._save_dir

    @property
    def root_dir(self) -> str:
        return str(Path(self._save_dir, self._name))

    @property
    def log_dir(self) -> str | None:
        """Where checkpoints of this run go."""
        return None if self._run is None else str(Path(self.root_dir, f"run_{self._run}"))

    @property
    def experiment(self) -> sqlite3.Connection:
        """A connection to the file; the caller closes it."""
        Path(self._save_dir).mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(Path(self._save_dir, f"{self._name}.sqlite3"), timeout=60)
        connection.executescript(_TABLES)
        return connection

    def claim_version(self, beside: Sequence[Logger] = ()) -> int | None:
        """Take the next number; the database gives each job another one, however many start at once."""
        if self._run is None and not process_rank():
            with closing(self.experiment) as database, database:
                row = database.execute("insert into runs (started, status) values (?, 'running')", (time(),))
                self._run = row.lastrowid
        return self._run

    def use_version(self, version: int | str) -> None:
        self._run = int(version)

    # ---- logging -----------------------------------------------------------------------------------------------------

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Keep a row and write many at once: this is called from the training loop, and must cost microseconds.

        ``float(value)`` reads a tensor at once, so that a later change of it does no harm. (For values on a device that
        waits for the device; ``lt_loggers.rows`` shows how to copy there and fetch many together.)
        """
        now, self._calls = time(), self._calls + 1
        at = self._calls - 1 if step is None else float(step)
        self._pending += [(self._calls, at, now, name, float(value)) for name, value in metrics.items()]
        if self._calls % self._flush_every == 0:
            self.save()

    def log_hyperparams(self, params: Mapping[str, Any], metrics: Mapping[str, Any] | None = None) -> None:
        text = json.dumps(plain_hparams(params), default=str)
        self._write(
            "update runs set hparams = json_patch(coalesce(hparams, '{}'), ?) where run = ?", [(text, self._id())]
        )
        if metrics:
            self.log_metrics(metrics)

    def log_media(self, name: str, value: Any, step: int | None = None) -> bool:
        """Keep the file of any kind of media as a blob; False for what lt does not know either."""
        media = as_media(value)
        if media is None:
            return False
        row = (self._id(), step, name, *media_bytes(media))
        self._write("insert into media (run, step, name, suffix, content) values (?, ?, ?, ?, ?)", [row])
        return True

    def save(self) -> None:
        """Write what is kept. Where that fails, the rows stay for the next time, and the Trainer reports it once."""
        if self._resume_at is not None:
            self._cut(self._resume_at)
        rows = [(self._id(), *row) for row in self._pending]
        self._write("insert into metrics (run, call, step, time, name, value) values (?, ?, ?, ?, ?, ?)", rows)
        self._pending = []

    def finalize(self, status: str) -> None:
        self.save()
        if self._run is not None:
            self._write("update runs set status = ? where run = ?", [(status, self._run)])

    # ---- resume ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Called after ``save``: the checkpoint remembers the run, and how many of its rows are its own."""
        return {"version": self._run, "calls": self._calls, "media": self._last("media")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Called on every rank, so nothing is deleted here yet; only rank 0 saves."""
        self._run, self._calls = state["version"], state["calls"]
        self._resume_at = {"calls": state["calls"], "media": state["media"]}

    def _cut(self, place: dict[str, int]) -> None:
        self._write("delete from metrics where run = ? and call > ?", [(self._run, place["calls"])])
        self._write("delete from media where run = ? and id > ?", [(self._run, place["media"])])
        self._resume_at = None

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _id(self) -> int | None:
        return self.claim_version()

    def _last(self, table: str) -> int:
        if self._run is None or process_rank():
            return 0
        with closing(self.experiment) as database:
            return int(database.execute(f"select coalesce(max(id), 0) from {table}").fetchone()[0])

    def _write(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """Write all rows or none. Other ranks write nothing: ``process_rank`` guards lines like ``logger.log_media``
        in code that every rank runs.
        """
        if rows and not process_rank():
            with closing(self.experiment) as database, database:
                database.executemany(statement, rows)
