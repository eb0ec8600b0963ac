"""What runs on one device have decided in this process: ranks that are started later, and repeat its script, read it.

They find the same folders and files by it; see :class:`lt_parallel.one_process.OneProcess`.
"""

from __future__ import annotations

from collections import defaultdict
from traceback import walk_stack
from typing import Any

from torch import Tensor

__all__ = ["DECISIONS", "decided"]

DECISIONS: defaultdict[Any, list[Any]] = defaultdict(list)
"""What rank 0 has broadcast, by the lines that led there: a hundred values of each place at most, and no tensors."""


def decided(value: Any, rank: int) -> Any:
    """Return ``value``, which rank 0 notes; on a rank that repeats its script, what rank 0 had at this place.

    Args:
        value: this process's own.
        rank: of this process.
    """
    if isinstance(value, Tensor):  # names no file, and would be held for the life of the process
        return value
    # where there are ranks, launchers are in between
    there = DECISIONS[tuple(line for frame, line in walk_stack(None) if frame.f_code.co_name != "launch")]
    if rank:
        return there.pop(0) if there else value
    there.append(value)
    del there[100:]
    return value
