"""Loggers that write one line for each row."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from lt_loggers.folder import FolderLogger
from lt_loggers.lines import LineFile
from lt_loggers.rows import Row

__all__ = ["LineLogger"]


class LineLogger(FolderLogger):
    """Base of the CSV and the JSON-lines logger: keeps its file, and where it ends, for a resume."""

    file_name: ClassVar[str]
    has_header: ClassVar[bool]

    _lines: LineFile | None = None
    _is_open = False

    @property
    def experiment(self) -> LineFile:
        """The file of rows: its ``path``, and the number of ``rows`` written."""
        path = Path(self.log_dir, self.file_name)
        if self._lines is None or self._lines.path != path:
            self._lines, self._is_open = LineFile(path, has_header=self.has_header), False
        return self._lines

    def _write(self, rows: list[Row]) -> None:
        self.claim_version()
        file = self.experiment
        if self._resumed or not self._is_open:
            file.open(self._resumed.get(self.file_name))
            self._resumed, self._is_open = {}, True
        if rows:
            self._write_rows(file, rows)

    def _write_rows(self, file: LineFile, rows: list[Row]) -> None:
        """Append rows to the file, which is open."""
        raise NotImplementedError(f"{type(self).__name__} must define _write_rows()")

    def _ends(self) -> dict[str, Any]:
        return {self.file_name: self.experiment.end()}
