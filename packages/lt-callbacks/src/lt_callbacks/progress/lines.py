"""Progress where stdout is no terminal: tidy lines for logs of batch jobs."""

from __future__ import annotations

from lt_callbacks.progress.phase import Display, Metrics, Phase, format_metrics, format_seconds
from lt_core.terminal import say

_FIRST, _LAST = 60.0, 600.0


class LineDisplay(Display):
    """Prints one line at the end of each epoch, test or prediction, without control characters.

    One that takes long says so before: each minute in its first ten, every ten minutes after a hundred.
    """

    delay = _FIRST

    def interval(self, phase: Phase) -> float:
        return min(max(_FIRST, phase.elapsed / 10), _LAST)

    def update(self, phase: Phase, metrics: Metrics) -> None:
        """Print the progress of ``phase``, unless it has just begun or is over."""
        if phase.over or phase.elapsed < _FIRST:
            return
        share = f" ({phase.done / phase.total:.0%})" if phase.total else ""
        eta = f"eta {format_seconds(phase.remaining)}" if phase.total is not None else format_seconds(phase.elapsed)
        _print(f"{phase.description}  {phase.count}{share}", phase.speed, eta, format_metrics(metrics(), " "))

    def finish(self, phase: Phase, metrics: Metrics) -> None:
        """Print the result of ``phase``; the sanity check and nested validations print nothing."""
        if phase.nested or phase.kind == "sanity":
            return
        took = format_seconds(phase.elapsed, short=True)
        _print(f"{phase.description}  {phase.count}", phase.mean_speed, took, format_metrics(metrics(), " "))


def _print(*parts: str) -> None:
    say("  ".join(part for part in parts if part))
