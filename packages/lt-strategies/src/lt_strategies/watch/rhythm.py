"""How a job moves along: how long its steps take, and whether anything happens in it at all."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from lt_strategies.watch.page import Line

STILL = 10.0  # seconds without a batch and without work on any rank, after which they are asked where they stand
STILL_ON_DEVICE = 60.0  # the same where a device works, and its ranks may wait for it without using the processor
WORK = 0.5  # seconds of processor time of all ranks together that count as work


class Pace:
    """Duration of a training step: the median over recent steps of all ranks."""

    def __init__(self) -> None:
        self._lines: Mapping[int, Line] = {}
        self._looked = 0.0
        self._steps: deque[float] = deque(maxlen=101)

    def seen(self, lines: Mapping[int, Line], now: float) -> float | None:
        """Take note of the ranks' lines; return the median step in seconds, or None before there is one."""
        for rank, line in lines.items():
            before = self._lines.get(rank, Line())
            started, first = before.beat, before.batches
            if before.phase != "train":  # only the first batch began before the last look
                started, first = self._looked, 1
            if line.phase == "train" and line.batches > first:
                self._steps.append((line.beat - started) / (line.batches - first))
        self._lines, self._looked = lines, now
        return sorted(self._steps)[len(self._steps) // 2] if self._steps else None


class Stillness:
    """Notices that nothing happens in a job: no rank writes a new line, and none uses the processor."""

    def __init__(self) -> None:
        self._since = self._looked = time.monotonic()
        self._lines: Mapping[int, Line] = {}
        self._used = 0.0

    def seen(self, lines: Mapping[int, Line]) -> bool:
        """Return whether :data:`STILL` seconds have passed like that; then starts again. Looks once a second.

        It takes :data:`STILL_ON_DEVICE` where a device works.
        """
        now = time.monotonic()
        if now - self._looked < 1.0:
            return False
        self._looked = now
        used = sum(processor_seconds(line.pid) for line in lines.values())
        moved = lines != self._lines or not used - self._used <= WORK  # also where it is unknown: inf - inf
        over = not moved and now - self._since > still(lines)
        if moved or over:
            self._since, self._lines, self._used = now, lines, used
        return over


def still(lines: Mapping[int, Line]) -> float:
    """Return the seconds in which a job must have stood still to be asked."""
    return STILL_ON_DEVICE if any(line.on_device for line in lines.values()) else STILL


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used; infinite where the platform does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return float("inf")
