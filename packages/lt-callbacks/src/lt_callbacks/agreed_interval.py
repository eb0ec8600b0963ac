"""A stretch of time whose end all ranks see at the same batch."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lt_core.trainer import TrainerAPI

__all__ = ["AgreedInterval"]


class AgreedInterval:
    """Says when a time has passed: on one process by its clock, on several by rank 0's, with few broadcasts.

    Rank 0 tells all ranks after how many calls to ask again: half of those that it expects until the time is over, and
    never more than there were so far. So an hour of a thousand batches a second costs some forty broadcasts.

    Args:
        seconds: the stretch of time.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Begin the stretch of time now."""
        self._began = monotonic()
        self._calls = 0
        self._ask_at = 1

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return monotonic() - self._began

    def passed(self, trainer: TrainerAPI) -> bool:
        """Return whether the time is over; every rank calls this equally often and gets the same answer."""
        if trainer.world_size == 1:
            return monotonic() - self._began >= self.seconds
        self._calls += 1
        if self._calls < self._ask_at:
            return False
        over, ahead = trainer.strategy.broadcast(self._judge() if trainer.is_global_zero else (False, 1))
        self._ask_at = self._calls + int(ahead)
        return bool(over)

    def _judge(self) -> tuple[bool, int]:
        elapsed = self.elapsed
        left = self.seconds - elapsed
        expected_calls = left * self._calls / max(elapsed, 1e-6)
        return left <= 0, max(1, min(int(expected_calls / 2), self._calls))
