"""``SummaryWriter`` on top of our event file, so that everything of a run is in one file and a resume can cut it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.tensorboard.writer import FileWriter, SummaryWriter

from lt_loggers.tensorboard.events import framed


class _Events:
    """The part of TensorBoard's EventFileWriter that ``FileWriter`` calls."""

    def __init__(self, log_dir: str, add: Callable[[bytes], None], flush: Callable[[], None]) -> None:
        self._log_dir, self._add = log_dir, add
        self.flush = self.close = flush

    def get_logdir(self) -> str:
        return self._log_dir

    def add_event(self, event: Any) -> None:
        self._add(framed(event))

    def reopen(self) -> None:
        """Nothing is ever closed."""


class _FileWriter(FileWriter):
    def __init__(self, events: _Events) -> None:
        self.event_writer = events


class LoggerSummaryWriter(SummaryWriter):
    """A SummaryWriter that hands its events to a logger.

    Args:
        log_dir: folder of the logger's file.
        add: takes a record.
        flush: writes the records.
    """

    def __init__(self, log_dir: str, add: Callable[[bytes], None], flush: Callable[[], None]) -> None:
        self._ours = _FileWriter(_Events(log_dir, add, flush))
        super().__init__(log_dir)

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None:
            self.file_writer, self.all_writers = self._ours, {self.log_dir: self._ours}  # type: ignore[assignment]
        return self._ours
