"""Metrics as JSON lines on standard output, for servers that collect the output of programs."""

from __future__ import annotations

import sys
from typing import Any

from lt_core.arguments import checks_arguments
from lt_core.terminal import drop_unwritten
from lt_loggers.buffered import BufferedLogger
from lt_loggers.jsonl import json_line, json_lines
from lt_loggers.params import plain
from lt_loggers.rows import Row

__all__ = ["StdoutLogger"]


class StdoutLogger(BufferedLogger):
    """Prints each row as a line of JSON, ``{"step": 10, "loss": 0.5}``, and hyperparameters as ``{"hparams": {...}}``.

    Every line is valid JSON (see :class:`~lt_loggers.jsonl.JSONLLogger`). It keeps no files and has no folder. A
    resumed run prints on; lines of the killed run after its checkpoint stay printed.

    Args:
        save_dir: not used; ``Trainer(logger="stdout")`` gives it.
        prefix: put before each metric's name, with a ``-`` between.
        timestamps: add ``"time"``, in seconds since 1970.
        flush_logs_every_n_steps: steps (or rows) between writes; 1 prints each row when it is logged.
        flush_secs: seconds between writes, when the steps are slow.

    Example::

        trainer = Trainer(logger="stdout", enable_progress_bar=False)
    """

    @checks_arguments
    def __init__(
        self,
        save_dir: Any = None,
        prefix: str = "",
        timestamps: bool = False,
        flush_logs_every_n_steps: int = 1,
        flush_secs: float = 10,
    ) -> None:
        super().__init__(prefix, flush_logs_every_n_steps, flush_secs)
        self._lt_timestamps = timestamps

    def _lt_write(self, rows: list[Row]) -> None:
        _print(json_lines(rows, timestamps=self._lt_timestamps))

    def _lt_write_hparams(self) -> None:
        _print([json_line({"hparams": plain(self.hparams)})])


def _print(lines: list[str]) -> None:
    try:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
    except OSError:  # the run says that this logger failed, and sends the rows again
        drop_unwritten(sys.stdout)
        raise
