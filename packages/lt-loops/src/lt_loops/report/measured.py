"""Where a profiler is asked for: the parts of a run get the names under which they are measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lt_core.profiler import Profiler

__all__ = ["measured_batches", "measured_save"]


def measured_batches(profiler: Profiler | None, batches: Iterator[Any]) -> Iterator[Any]:
    """Return the batches as they are, or with the wait for each measured as ``"get_batch"``."""
    return batches if profiler is None else _measured(profiler, batches)


def measured_save(profiler: Profiler | None) -> AbstractContextManager[Any]:
    """Return a context in which checkpoints are made and written, measured as ``"save_checkpoint"``."""
    return nullcontext() if profiler is None else profiler.profile("save_checkpoint")


def _measured(profiler: Profiler, batches: Iterator[Any]) -> Iterator[Any]:
    get_batch = profiler.wrap("get_batch", batches.__next__)
    while True:
        try:
            batch = get_batch()
        except StopIteration:
            return
        yield batch
        profiler.step()
