"""Save points: callbacks ask, the loop saves when a boundary is complete."""

from __future__ import annotations

import copy
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lt_core.checkpoint_header import Header
from lt_core.errors import CheckpointError, warn
from lt_core.partial_save import Contents
from lt_loops.profiled import measured_save
from lt_loops.state import capture

if TYPE_CHECKING:
    from lt_core.callback import Callback
    from lt_core.checkpoint import CheckpointIO
    from lt_loops.run import Run

__all__ = ["SaveRequest", "confirm_saves", "save_now", "serve_requests"]


class SaveRequest(NamedTuple):
    """A checkpoint that somebody asked for."""

    path: str
    contents: Contents
    owner: Callback | None
    mark: str


def serve_requests(run: Run) -> None:
    """Write what was asked for since the last boundary: all hooks have run, schedulers stepped, the position moved."""
    if not run.requests:
        return
    with measured_save(run):
        _serve(run)


def _serve(run: Run) -> None:
    confirm_saves(run)
    requests, run.requests = run.requests, []
    kept: dict[Contents, dict[str, Any]] = {}
    failed: Exception | None = None
    run.sink.each(lambda logger: logger.save())
    for request in requests:
        if request.contents not in kept:
            kept[request.contents], broken = capture(run, request.contents)
            failed = failed or broken
        tree = Header.marked(kept[request.contents], request.mark)
        error = _agreed(run, _try_to_write(run, request.path, tree, run.trainer.checkpoint_io))
        if error is not None:
            _report(run, request, error)
            continue
        _say_gaps(run, request.path, tree)
        run.unconfirmed.append(request)
        if request.owner is not None:
            owner = request.owner
            owner.on_saved(request.path)
            run.sink.each(lambda logger, owner=owner: logger.after_save_checkpoint(owner))  # type: ignore[misc]
    if failed is not None:  # of the user's own code, as from any hook; what matters is saved
        raise failed


def _say_gaps(run: Run, path: str, tree: dict[str, Any]) -> None:
    """Say what a checkpoint was written without."""
    if run.strategy.rank == 0 and (gaps := tree.get("gaps")):
        missing = "; ".join(f"{part} ({why})" for part, why in gaps.items())
        warn(
            f"{path} was saved without {missing}. A resume begins that anew, everything else continues exactly. "
            "The file's key 'gaps' lists it.",
            code="LT604",
        )


def confirm_saves(run: Run, *, together: bool = True) -> None:
    """Wait for what is written in the background, and report what failed.

    Args:
        run: the run.
        together: whether all ranks call this; not so where an exception may end one alone.
    """
    pending, run.unconfirmed = run.unconfirmed, []
    error: Exception | None = None
    try:
        run.trainer.checkpoint_io.wait()
    except (CheckpointError, OSError) as caught:
        error = caught
    if pending and together:
        error = _agreed(run, error)
    if error is None:
        run.saved += len(pending)
        return
    for request in pending:
        _report(run, request, error)


def _agreed(run: Run, error: Exception | None) -> Exception | None:
    """Return an error that any rank had while it saved, on all: their callbacks must go on from the same files."""
    if run.strategy.world_size == 1:
        return error
    told = next((text for text in run.strategy.gather_objects("" if error is None else str(error)) if text), "")
    return error if error is not None or not told else CheckpointError(told)


def _report(run: Run, request: SaveRequest, error: Exception) -> None:
    """Say loudly, once for all ranks, that a save failed; training goes on, older checkpoints stay."""
    run.save_error = error
    if run.strategy.rank == 0:
        why = str(error).removeprefix(f"{request.path} ").rstrip(".")
        warn(
            f"CHECKPOINT NOT SAVED: {request.path}: {why}. Training goes on and older checkpoints stay; make room or "
            "give access, the next save tries again.",
            code="LT640",
        )
    if request.owner is not None:
        request.owner.on_save_failed(request.path, error)


def save_now(run: Run, path: str | PathLike[str], contents: Contents, storage_options: Any = None) -> None:
    """Write a checkpoint of this moment; it is complete when this returns, on every rank.

    Args:
        run: the run.
        path: the file.
        contents: what goes into it.
        storage_options: for the run's CheckpointIO.

    Raises:
        CheckpointError: on every rank, where it could not be written.
    """
    with measured_save(run):
        if run.is_live:  # the place in the loggers' files is saved: rows that are not written yet would be cut off
            run.sink.each(lambda logger: logger.save())
        io = run.trainer.checkpoint_io
        io = io if storage_options is None else _with_options(io, storage_options)
        tree, failed = capture(run, contents)
        error = _agreed(run, _try_to_write(run, fspath(path), tree, io, wait=True))
    if error is not None:
        raise error
    _say_gaps(run, fspath(path), tree)
    if not run.is_live:
        run.trainer.checkpoint_io.teardown()
    if run.strategy.world_size > 1:
        run.strategy.barrier("save_checkpoint")
    if failed is not None and run.status == "running":  # where the run ends by an exception, the file is what counts
        raise failed


def _with_options(io: CheckpointIO, storage_options: Any) -> CheckpointIO:
    """Return ``io``, which gets these options with what it writes."""
    passing = copy.copy(io)
    vars(passing)["save_checkpoint"] = partial(io.save_checkpoint, storage_options=storage_options)
    return passing


def _try_to_write(
    run: Run, path: str, tree: dict[str, Any], io: CheckpointIO, *, wait: bool = False
) -> Exception | None:
    """Write ``tree``; return what the file system, or what is not plain data, has against it."""
    try:
        if run.strategy.rank == 0 and "://" not in path:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        run.strategy.save_checkpoint(io, tree, path)
        if wait:
            run.trainer.checkpoint_io.wait()
    except (CheckpointError, OSError) as error:
        return error
    return None
