"""What 0.1 left in a folder of checkpoints: which file belongs to which run."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path


class Ledger:
    """The file in which 0.1 noted what a run wrote, one line for each; now each checkpoint's header says it.

    It is read, so that a resumed run of 0.1 deletes what it replaces; it is never written, and goes when such a run
    ends, or no file that it names is there.

    Args:
        folder: the folder of the checkpoints.
    """

    NAME = ".lt_checkpoints.jsonl"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def owns(self, run_id: str, name: str) -> bool:
        """Return whether 0.1 noted ``name``, a path relative to the folder, for this run."""
        return (run_id, name) in self._entries()

    def retire(self, run_id: str) -> None:
        """Delete it unless files of another run stand in it that are still there."""
        entries = self._entries()
        if any(run != run_id and (self._folder / name).exists() for run, name in entries):
            return
        if entries:
            with contextlib.suppress(OSError):
                (self._folder / self.NAME).unlink()

    def _entries(self) -> set[tuple[str, str]]:
        try:
            lines = (self._folder / self.NAME).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            return set()
        return {entry for line in lines if (entry := _entry(line)) is not None}


def _entry(line: str) -> tuple[str, str] | None:
    try:
        entry = json.loads(line)
    except ValueError:  # the last line of a process killed while it wrote
        return None
    run, name = (entry.get("run"), entry.get("file")) if isinstance(entry, dict) else (None, None)
    return (run, name) if isinstance(run, str) and isinstance(name, str) else None
