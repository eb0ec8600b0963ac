"""When a run saves: at its boundaries, or where the user asks for it at once."""

from __future__ import annotations

from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from lt_core.partial_save import Contents
from lt_loops.checkpoint.state import capture
from lt_loops.report.measured import measured_save

if TYPE_CHECKING:
    from lt_loops.run.frame import Run

__all__ = ["save_now", "serve_requests"]


def serve_requests(run: Run) -> None:
    """Write what was asked for since the last boundary."""
    if run.saves.requests:
        with measured_save(run.profiler):
            run.saves.serve(partial(capture, run), run.log.each)


def save_now(run: Run, path: str | PathLike[str], contents: Contents, storage_options: Any = None) -> None:
    """Write a checkpoint of this moment; it is complete when this returns, on every rank.

    Raises:
        CheckpointError: on every rank, where it could not be written.
    """
    run.saves.confirm()  # what fails of an earlier save is not this one's failure
    with measured_save(run.profiler):
        if run.is_live:  # the place in the loggers' files is saved: rows that are not written yet would be cut off
            run.log.each(lambda logger: logger.save())
        failed = run.saves.save_now(fspath(path), contents, partial(capture, run), storage_options)
    if not run.is_live:
        run.checkpoint_io.teardown()
    if run.strategy.world_size > 1:
        run.strategy.barrier("save_checkpoint")
    if failed is not None and run.status == "running":  # where the run ends by an exception, the file is what counts
        raise failed
