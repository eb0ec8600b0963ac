"""Metrics as a CSV file."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lt_core.arguments import checks_arguments
from lt_loggers.lines import LineFile, LineLogger
from lt_loggers.rows import Row

__all__ = ["CSVLogger", "ExperimentWriter"]


class CSVLogger(LineLogger):
    """Writes ``metrics.csv`` (a column for each name, a row for each call) and ``hparams.yaml``.

    Columns are in the order of the alphabet. A name that comes up later becomes a new one; rows above it stay, with an
    empty cell there.

    Args:
        save_dir: folder of all experiments.
        name: of the experiment, the folder below; may be empty.
        version: of the run: a number N for the folder ``version_N``, or the folder's name. None takes the next number.
        prefix: put before each metric's name, with a ``-`` between.
        flush_logs_every_n_steps: steps (or rows) between writes, which a killed process can lose.
        flush_secs: seconds between writes, when the steps are slow.

    Example::

        trainer = Trainer(logger=CSVLogger("logs", name="my_model"))
    """

    file_name = "metrics.csv"
    has_header = True

    @checks_arguments
    def __init__(
        self,
        save_dir: str | os.PathLike[str],
        name: str | None = "lightning_logs",
        version: int | str | None = None,
        prefix: str = "",
        flush_logs_every_n_steps: int = 100,
        flush_secs: float = 10,
    ) -> None:
        super().__init__(save_dir, name, version, None, prefix, flush_logs_every_n_steps, flush_secs)
        self._lt_columns: list[str] = []
        self._lt_header = ""
        self._lt_templates: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {}

    @property
    def experiment(self) -> ExperimentWriter:
        """The rows that are not written yet, and their writer. A subclass's own writer gets the rows in its place."""
        return ExperimentWriter(self.log_dir, self)

    def _lt_write(self, rows: list[Row]) -> None:
        writer: Any = self.experiment
        if type(writer) is not ExperimentWriter:
            while rows:
                step, _, row = rows[0]
                writer.log_metrics(row, step)
                del rows[0]
            writer.save()
        super()._lt_write(rows)

    def _lt_write_rows(self, file: LineFile, rows: list[Row]) -> None:
        if (file.header or "") != self._lt_header:  # of another file, or taken over from disk
            self._lt_take_columns(next(csv.reader([file.header or ""])))
        columns = sorted({"step", *self._lt_columns, *(name for _, _, row in rows for name in row)})
        if len(columns) > len(self._lt_columns):
            self._lt_take_columns(columns)
            if file.header is not None and file.size:
                _widen(file, columns, self._lt_header)
        file.write([self._lt_line(step, row) for step, _, row in rows], self._lt_header)

    def _lt_take_columns(self, columns: list[str]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(columns)
        self._lt_columns, self._lt_header = columns, text.getvalue()
        self._lt_templates.clear()

    def _lt_line(self, step: float, row: dict[str, int | float]) -> str:
        """Return the cells of a row, by a template that is made once for each set of names."""
        names = tuple(row)
        if names not in self._lt_templates:
            present = {*row, "step"}
            template = ",".join("%r" if column in present else "" for column in self._lt_columns)
            self._lt_templates[names] = template, tuple(column for column in self._lt_columns if column in present)
        template, ordered = self._lt_templates[names]
        return template % tuple([row.get(name, step) for name in ordered])


class ExperimentWriter:
    """Writes ``metrics.csv`` and ``hparams.yaml`` of one folder; the class of ``CSVLogger.experiment``.

    Args:
        log_dir: the folder.
        logger: that writes there; None makes one, which writes when :meth:`save` says so.
    """

    NAME_METRICS_FILE = "metrics.csv"
    NAME_HPARAMS_FILE = "hparams.yaml"

    def __init__(self, log_dir: str | os.PathLike[str], logger: CSVLogger | None = None) -> None:
        self.log_dir = os.fspath(log_dir)
        folder, version = os.path.split(self.log_dir)
        self._logger = logger or CSVLogger(folder, "", version, "", 1 << 62, 1e9)

    @property
    def path(self) -> Path:
        """The file of rows."""
        return self._logger._lt_file().path

    @property
    def rows(self) -> int:
        """How many are in the file."""
        return self._logger._lt_file().rows

    @property
    def metrics_file_path(self) -> str:
        """Where it is in the end: in a remote folder, maybe."""
        return f"{self.log_dir}/{self.NAME_METRICS_FILE}"

    @property
    def metrics(self) -> list[dict[str, int | float]]:
        """The rows that are not in the file yet, with their ``step``; a subclass that has written them sets ``[]``."""
        return [{**row, "step": step} for step, _, row in self._logger._lt_rows.read()]

    @metrics.setter
    def metrics(self, rows: object) -> None:
        self._logger._lt_rows.drop()

    @property
    def hparams(self) -> dict[str, Any]:
        """The hyperparameters logged so far."""
        return self._logger.hparams

    def log_metrics(self, metrics_dict: Mapping[str, Any], step: int | None = None) -> None:
        """Add a row."""
        self._logger.log_metrics(metrics_dict, step)

    def log_hparams(self, params: Mapping[str, Any]) -> None:
        """Add hyperparameters, and write them."""
        self._logger.log_hyperparams(params)

    def save(self) -> None:
        """Write the rows."""
        self._logger.save()


def _widen(file: LineFile, columns: list[str], header: str) -> None:
    """Give the file a header with more columns, and each row empty cells there."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(csv.DictReader(file.path.read_text("utf-8").splitlines()))
    file.replace(text.getvalue().encode())
    file.header = header
