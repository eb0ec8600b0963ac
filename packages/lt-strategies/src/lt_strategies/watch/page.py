"""Files of a job's folder: a memory-mapped line for each rank, and the report of a rank that failed."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

STARTING, IDLE, RUNNING, STEPPING, ENDED = range(5)
"""States of a rank: starting, between runs, in a run, taking batches (the deadline counts), gone for good."""

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has the latter only
_REALTIME = getattr(signal, "SIGRTMIN", None)
DUMP_SIGNAL: int | None = int(_REALTIME) + 6 if _REALTIME else getattr(signal, "SIGINFO", None)
"""Asks a rank to write where it stands (``faulthandler``); None where the platform has no spare signal."""
RAISE_SIGNAL: int | None = int(_REALTIME) + 7 if _REALTIME else None
"""Asks rank 0 to raise the watcher's verdict."""


class Line(NamedTuple):
    """A rank's report: process id, time of its last batch (seconds, monotonic), state, batches done, number of its main
    thread, whether a device other than the CPU works for it, whether its run has done no batch but of a validation.
    """

    pid: int = 0
    beat: float = 0.0
    state: int = STARTING
    batches: int = 0
    phase: str = ""
    thread: int = 0
    on_device: bool = False
    first: bool = False

    @property
    def ended(self) -> bool:
        """Whether the rank's script is over."""
        return self.state == ENDED

    @property
    def place(self) -> str:
        """Where the rank is, as text."""
        if self.state in (STARTING, IDLE) or not self.phase:
            early = {STARTING: "while it started", IDLE: "between two runs", RUNNING: "before its first batch"}
            return early.get(self.state, "in its first batch or before it")
        return f"in {self.phase} batch {self.batches + 1} of this run" + " or after it" * self.first


class Page:
    """A memory-mapped file with one line for each rank; writing one costs no system call.

    Args:
        path: the file; made when ``world_size`` is given.
        world_size: ranks on this machine.
    """

    _FORM = struct.Struct("<qdqq32sQ??")

    def __init__(self, path: str | Path, world_size: int | None = None) -> None:
        if world_size is not None:
            Path(path).write_bytes(bytes(self._FORM.size * world_size))
        with Path(path).open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def write(self, rank: int, line: Line) -> None:
        """Replace the line of ``rank``."""
        fields = line._replace(phase=line.phase.encode()[:32])  # type: ignore[arg-type]
        self._FORM.pack_into(self._memory, rank * self._FORM.size, *fields)

    def read(self, rank: int) -> Line:
        """Return the line of ``rank``."""
        line = Line(*self._FORM.unpack_from(self._memory, rank * self._FORM.size))
        return line._replace(phase=line.phase.rstrip(b"\0").decode(errors="replace"))  # type: ignore[arg-type, attr-defined]


def is_alive(pid: int) -> bool:
    """Return whether a process runs; it need be no child of this one."""
    with contextlib.suppress(OSError):
        # a zombie has ended; with the bracket, as a process may have "Z" in its name
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text("utf-8")
    with contextlib.suppress(OSError):
        os.kill(pid, 0)
        # where there is no /proc (macOS); os.kill(0, 0) would ask the whole process group
        return pid > 0 and not Path("/proc/self").exists()
    return False


def read_report(folder: Path, rank: int) -> dict[str, Any] | None:
    """Return the failure report of ``rank``, or None."""
    return read_json(folder / f"report_{rank}.json")


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a file, or None where there is no whole one."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text("utf-8"))  # type: ignore[no-any-return]
    return None


def save_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object to a file, complete or not at all."""
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(content), "utf-8")
    draft.replace(path)
