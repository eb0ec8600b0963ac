"""What ``lt migrate`` leaves for a person to look at."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Left"]


class Left(NamedTuple):
    """Something that a person has to look at.

    Attributes:
        line: from 1.
        what: the text that stands there.
        advice: what to do.
    """

    line: int
    what: str
    advice: str
