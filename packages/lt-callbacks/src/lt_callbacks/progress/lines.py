"""Progress where stdout is no terminal: tidy lines for logs of batch jobs."""

from __future__ import annotations

import sys

from lt_callbacks.progress.phase import Metrics, Phase, format_metrics, format_seconds

__all__ = ["LineDisplay"]

_FIRST, _LAST = 5.0, 60.0


class LineDisplay:
    """Prints one line every few seconds and one at the end of each epoch, test or prediction.

    The lines grow rarer as a phase lasts: every 5 seconds in its first five minutes, every 60 after an hour.

    """

    delay = _FIRST

    def interval(self, phase: Phase) -> float:
        """Return the seconds until the next line."""
        return min(max(_FIRST, phase.elapsed / 60), _LAST)

    def update(self, phase: Phase, metrics: Metrics) -> None:
        """Print where ``phase`` is; not when it has just begun, nor when it is over."""
        if phase.over or phase.elapsed < _FIRST:
            return
        share = f" ({phase.done / phase.total:.0%})" if phase.total else ""
        eta = f"eta {format_seconds(phase.remaining)}" if phase.total is not None else format_seconds(phase.elapsed)
        _print(f"{phase.description}  {phase.count}{share}", phase.speed, eta, format_metrics(metrics(), " "))

    def finish(self, phase: Phase, metrics: Metrics) -> None:
        """Print what ``phase`` came to; the sanity check and nested validations say nothing."""
        if phase.nested or phase.kind == "sanity":
            return
        seconds = phase.elapsed
        took = format_seconds(seconds) if seconds >= 60 else f"{seconds:.1f} s"
        _print(f"{phase.description}  {phase.count}", phase.speed, took, format_metrics(metrics(), " "))

    def resume(self, phase: Phase) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _print(*parts: str) -> None:
    if sys.stdout is not None:
        sys.stdout.write("  ".join(part for part in parts if part) + "\n")
        sys.stdout.flush()
