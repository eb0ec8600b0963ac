"""What is said when the metric that a callback monitors is not there."""

from __future__ import annotations

from collections.abc import Iterable

from lt_core.errors import LogError, did_you_mean

__all__ = ["missing"]


def missing(who: str, monitor: str, logged: Iterable[str]) -> LogError:
    """Return the error for a ``monitor`` that was not logged when it was due."""
    names = sorted(logged)
    have = ", ".join(map(repr, names)) or "nothing"
    return LogError(
        f"{who}(monitor={monitor!r}): no metric of this name was logged when it was due. Logged so far: {have}."
        f"{did_you_mean(monitor, names)} Log it by self.log({monitor!r}, ...) or monitor another one.",
        code="LT531",
    )
