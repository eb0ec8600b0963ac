"""Files of lines, one for each row, and the base of the loggers that write them."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from lt_core.errors import warn
from lt_loggers.folder import FolderLogger
from lt_loggers.log_file import LogFile
from lt_loggers.rows import Row


class LineFile(LogFile):
    """Rows as lines, behind an optional header line; knows how many there are.

    Attributes:
        header: the first line, without its end; None for a file without one.
        rows: lines behind the header.
        last: the last one, by which a resume knows that the file is the one that the checkpoint means.
    """

    def __init__(self, path: Path, *, has_header: bool) -> None:
        super().__init__(path)
        self.has_header = has_header
        self.header: str | None = None
        self.rows, self.last = 0, ""
        self._read = False

    def open(self, resumed: dict[str, Any] | None) -> None:
        """Take over the file as it is on disk, cut to the rows in the checkpoint; called before the first write.

        Args:
            resumed: :meth:`end` of the checkpoint's time, or None for a run that starts.
        """
        if resumed and self._is_same(resumed):
            self._cut(resumed["rows"])
        elif not self._read:
            self._cut(None)
            if self.rows and not resumed:
                warn(
                    f"{self.path} holds {self.rows} rows of an earlier run; new rows follow them. Without version= "
                    "this run gets a folder of its own.",
                    code="LT549",
                )
        self._read = True

    def end(self) -> dict[str, Any]:
        """Return the state for a resume: the number of rows and the last of them."""
        if not self._read:
            self._cut(None)
        return {"rows": self.rows, "last": self.last}

    def write(self, lines: list[str], header: str | None = None) -> None:
        """Append rows, one or more, behind the header where the file is new (or somebody removed it)."""
        new = not self.size
        if new:
            self.header, self.rows = header, 0
        above = [header] if new and header is not None else []
        self.append("".join(f"{line}\n" for line in [*above, *lines]).encode())
        self.rows += len(lines)
        self.last = lines[-1]

    def _is_same(self, resumed: dict[str, Any]) -> bool:
        """Return whether the file holds the rows in the checkpoint; warn once if it does not."""
        wanted = resumed["rows"]
        if not wanted:
            return True
        found = 0
        if self.size:
            cells = re.compile("[^,\n]+").findall  # empty ones are left out: the file may be wider by now
            with self.path.open(encoding="utf-8", errors="replace") as file:
                for line in islice(file, self.has_header, wanted + self.has_header):
                    found += 1
                    if found == wanted and line.endswith("\n") and cells(line) == cells(resumed["last"]):
                        return True
        warn(
            f"The checkpoint was made when {self.path} had {wanted} rows, but the file "
            f"{f'has {found}' if found < wanted else 'holds others'}: new rows follow the old ones, and none is "
            "dropped. Copy the run's log folder along with its checkpoints to continue its files.",
            code="LT550",
        )
        return False

    def _cut(self, rows: int | None) -> None:
        """Keep ``rows`` rows (None: all whole ones), and note the header, their number and the last one."""
        self.header, self.rows, self.last = None, 0, ""
        size = self.size
        if not size:
            return
        end = 0
        with self.path.open("rb") as file:
            for line in file:
                is_header = self.has_header and self.header is None
                if not line.endswith(b"\n") or (self.rows == rows and not is_header):
                    break
                end += len(line)
                text = line.decode("utf-8", "replace").rstrip("\n")
                if is_header:
                    self.header = text
                else:
                    self.rows, self.last = self.rows + 1, text
        if end < size:
            self.cut(end, self._dropped())

    def _dropped(self) -> Path:
        """Return the file for rows that are cut off, with a header for them: earlier ones may have had another."""
        path = self.path.with_name(f"{self.path.stem}.dropped{self.path.suffix}")
        if self.header is not None:
            LogFile(path).append(f"{self.header}\n".encode())
        return path


class LineLogger(FolderLogger):
    """Base of the CSV and the JSON-lines logger: keeps its file, and where it ends, for a resume."""

    file_name: ClassVar[str]
    has_header: ClassVar[bool]

    _lt_lines: LineFile | None = None

    def begin_anew(self) -> None:
        super().begin_anew()
        self._lt_lines = None

    @property
    def experiment(self) -> Any:
        """The file of rows: its ``path``, and the number of ``rows`` written."""
        return self._lt_file()

    def _lt_file(self) -> LineFile:
        path = self.files_dir / self.file_name
        if self._lt_lines is None or self._lt_lines.path != path:
            self._lt_lines = LineFile(path, has_header=self.has_header)
        return self._lt_lines

    def _lt_write(self, rows: list[Row]) -> None:
        self.claim_version()
        file = self._lt_file()
        file.open(self._lt_resumed.get(self.file_name))
        self._lt_resumed = {}
        if rows:
            self._lt_write_rows(file, rows)

    def _lt_write_rows(self, file: LineFile, rows: list[Row]) -> None:
        """Append rows to the file, which is open."""
        raise NotImplementedError

    def _lt_ends(self) -> dict[str, Any]:
        file = self._lt_file()
        file.sync()
        return {self.file_name: file.end()}
