"""Metrics as JSON lines: one object for each row, for other programs to read."""

from __future__ import annotations

import json
import math
import os
from typing import Any

from lt_core.arguments import checks_arguments
from lt_loggers.lines import LineFile, LineLogger
from lt_loggers.rows import Row

__all__ = ["JSONLLogger", "json_line", "json_lines"]


class JSONLLogger(LineLogger):
    """Writes ``metrics.jsonl`` and ``hparams.yaml``.

    A line is ``{"step": 10, "loss": 0.5}``. Every line is valid JSON: NaN and infinity, which JSON lacks, are the
    strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, which ``float()`` reads.

    Args:
        save_dir: folder of all experiments.
        name: of the experiment, the folder below; may be empty.
        version: of the run: a number N for the folder ``version_N``, or the folder's name. None takes the next number.
        prefix: put before each metric's name, with a ``-`` between.
        timestamps: add ``"time"``, in seconds since 1970. Without it equal runs write equal files.
        flush_logs_every_n_steps: steps (or rows) between writes, which a killed process can lose.
        flush_secs: seconds between writes, when the steps are slow.

    Example::

        trainer = Trainer(logger="jsonl")
        rows = [json.loads(line) for line in open("lightning_logs/version_0/metrics.jsonl")]
    """

    file_name = "metrics.jsonl"
    has_header = False

    @checks_arguments
    def __init__(
        self,
        save_dir: str | os.PathLike[str],
        name: str | None = "lightning_logs",
        version: int | str | None = None,
        prefix: str = "",
        timestamps: bool = False,
        flush_logs_every_n_steps: int = 100,
        flush_secs: float = 10,
    ) -> None:
        super().__init__(save_dir, name, version, None, prefix, flush_logs_every_n_steps, flush_secs)
        self._lt_timestamps = timestamps

    def _lt_write_rows(self, file: LineFile, rows: list[Row]) -> None:
        file.write(json_lines(rows, timestamps=self._lt_timestamps))


def json_lines(rows: list[Row], *, timestamps: bool) -> list[str]:
    """Return rows as JSON, with the time of each where wanted."""
    return [json_line({"step": step, **({"time": time} if timestamps else {}), **row}) for step, time, row in rows]


def json_line(row: dict[str, Any]) -> str:
    """Return a row as valid JSON; NaN and infinity as strings."""
    return json.dumps(
        {
            name: json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in row.items()
        }
    )
