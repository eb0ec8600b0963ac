"""Spans of time whose end all ranks see at the same batch."""

from __future__ import annotations

from time import monotonic
from typing import Any, Protocol

__all__ = ["AgreedTime", "Talking"]


class Talking(Protocol):
    """Several processes as one of them sees them: a Trainer or a Strategy."""

    @property
    def world_size(self) -> int:
        """How many there are."""

    def broadcast(self, value: Any, src: int = 0) -> Any:
        """Return what process ``src`` gave, on each."""


class AgreedTime:
    """Says whether a time is over: on one process by its clock, on several by rank 0's, with few broadcasts.

    Rank 0 broadcasts after how many calls to ask again: half of those that it expects until then, and never more
    than there were so far. So a limit of an hour at a thousand batches a second costs some forty broadcasts. Every rank
    must ask equally often. Make a new one for each span.
    """

    def __init__(self) -> None:
        self._began = monotonic()
        self._calls, self._ask_at = 0, 1

    def is_over(self, left: float, ranks: Talking) -> bool:
        """Return whether nothing is left of the time.

        Args:
            left: seconds, as this rank sees it.
            ranks: those that agree.
        """
        if ranks.world_size == 1:
            return left <= 0
        self._calls += 1
        if self._calls < self._ask_at:
            return False
        over, ahead = ranks.broadcast((left <= 0, self._calls_ahead(left)))
        self._ask_at = self._calls + int(ahead)
        return bool(over)

    def _calls_ahead(self, left: float) -> int:
        elapsed = max(monotonic() - self._began, 1e-6)
        return max(1, min(int(left * self._calls / elapsed / 2), self._calls))
