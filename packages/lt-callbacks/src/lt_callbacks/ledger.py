"""Which checkpoint files in a folder belong to which run."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["Ledger"]


class Ledger:
    """A small file beside the checkpoints, one line for each file, written before the file itself is begun.

    A run deletes or overwrites only files that stand here under its own id: so a process that takes over from a killed
    one may tidy up after it, and touches nothing else.

    Args:
        folder: the folder of the checkpoints; None where it is remote: then nothing is known to be the run's own.
    """

    NAME = ".lt_checkpoints.jsonl"

    def __init__(self, folder: Path | None) -> None:
        self._file = folder / self.NAME if folder is not None else None

    def record(self, run_id: str, name: str) -> None:
        """Note that the run is about to write ``name``, a path relative to the folder."""
        if self._file is None or self.owns(run_id, name):
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"run": run_id, "file": name})
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")

    def owns(self, run_id: str, name: str) -> bool:
        """Return whether ``name`` was recorded by this run."""
        if self._file is None:
            return False
        try:
            lines = self._file.read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        return any(_is(line, run_id, name) for line in lines)


def _is(line: str, run_id: str, name: str) -> bool:
    try:
        entry = json.loads(line)
    except ValueError:  # the last line of a process killed while it wrote
        return False
    return isinstance(entry, dict) and entry.get("run") == run_id and entry.get("file") == name
