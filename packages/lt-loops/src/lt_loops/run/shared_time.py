"""Time limits that all ranks see pass at the same batch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lt_core.strategy import Strategy

__all__ = ["SharedTime"]


class SharedTime:
    """Says whether a time is over: on one process by its clock, on several by rank 0's, with few broadcasts.

    Rank 0 tells the others after how many calls to ask again: half of those that it expects until then, and never more
    than there were so far. So a limit of an hour at a thousand batches a second costs some forty broadcasts. Every rank
    must ask equally often.
    """

    def __init__(self, strategy: Strategy) -> None:
        """Note who agrees; the count of calls begins here."""
        self._strategy = strategy
        self._began = time.perf_counter()
        self._calls, self._ask_at = 0, 1

    def is_over(self, left: float) -> bool:
        """Return whether nothing is left of the time; ``left`` is in seconds, as this rank sees it."""
        strategy = self._strategy
        if strategy.world_size == 1:
            return left <= 0
        self._calls += 1
        if self._calls < self._ask_at:
            return False
        over, ahead = strategy.broadcast((left <= 0, self._calls_ahead(left)))
        self._ask_at = self._calls + int(ahead)
        return bool(over)

    def _calls_ahead(self, left: float) -> int:
        elapsed = max(time.perf_counter() - self._began, 1e-6)
        return max(1, min(int(left * self._calls / elapsed / 2), self._calls))
