"""Save points: callbacks ask, the loop saves when a boundary is complete."""

from __future__ import annotations

import copy
from collections.abc import Mapping
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
    from lt_loops.run.frame import Run

__all__ = ["SaveRequest", "confirm_saves", "save_now", "serve_requests"]


class SaveRequest(NamedTuple):
    """A checkpoint that somebody asked for.

    Attributes:
        path: the file.
        contents: what goes into it.
        owner: the callback that hears how it ended.
        mark: what the file says of its owner (:meth:`lt_core.checkpoint_header.Header.marked`).
        batches: training batches done when it was written: which state it holds.
        header: what the file says of itself when it is written.
    """

    path: str
    contents: Contents
    owner: Callback | None
    mark: str
    batches: int = 0
    header: Header | None = None


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
    batches = _batches(run)
    failed: Exception | None = None
    run.sink.each(lambda logger: logger.save())
    for asked in requests:
        if asked.contents not in kept:
            kept[asked.contents], broken = capture(run, asked.contents)
            failed = failed or broken
        tree = Header.marked(kept[asked.contents], asked.mark)
        request = asked._replace(batches=batches, header=Header.of(tree))
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
    io = run.trainer.checkpoint_io
    failures = io.failures()
    errors = {request.path: _error_of(request, failures, io) for request in pending}
    for path in failures.keys() - errors.keys() - {""}:  # a link or a removal; no checkpoint is lost
        warn(f"In the background: {failures[path]} Training goes on, no checkpoint is lost.", code="LT620")
    if pending and together:
        errors = _agreed_on_each(run, errors)
    for request in pending:
        error = errors[request.path]
        if error is None:
            run.saved[request.contents] = request.batches
        else:
            _report(run, request, error)


def _error_of(request: SaveRequest, failures: Mapping[str, Exception], io: CheckpointIO) -> Exception | None:
    """Return why a request failed; where it is not known which one did, look whether its file is there."""
    if "" not in failures:
        return failures.get(request.path)
    written = request.header is not None and io.header(request.path) == request.header
    return failures.get(request.path) or (None if written else failures[""])


def _batches(run: Run) -> int:
    return run.position.total_batches + run.position.batch


def _agreed(run: Run, error: Exception | None) -> Exception | None:
    """Return an error that any rank had while it saved, on all: their callbacks must go on from the same files."""
    if run.strategy.world_size == 1:
        return error
    told = next((text for text in run.strategy.gather_objects("" if error is None else str(error)) if text), "")
    return error if error is not None or not told else CheckpointError(told)


def _agreed_on_each(run: Run, errors: dict[str, Exception | None]) -> dict[str, Exception | None]:
    """Return, for each file, the error that any rank had with it, on all."""
    if run.strategy.world_size == 1:
        return errors
    everyone = run.strategy.gather_objects({path: str(error) for path, error in errors.items() if error is not None})
    told = {path: CheckpointError(text) for texts in reversed(everyone) for path, text in texts.items()}
    return {path: error or told.get(path) for path, error in errors.items()}


def _report(run: Run, request: SaveRequest, error: Exception) -> None:
    """Say loudly, once for all ranks, that a save failed; training goes on, older checkpoints stay."""
    run.save_errors[request.contents] = (request.batches, error)
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
    confirm_saves(run)  # what fails of an earlier save is not this one's failure
    with measured_save(run):
        if run.is_live:  # the place in the loggers' files is saved: rows that are not written yet would be cut off
            run.sink.each(lambda logger: logger.save())
        io = run.trainer.checkpoint_io
        io = io if storage_options is None else _with_options(io, storage_options)
        tree, failed = capture(run, contents)
        error = _agreed(run, _try_to_write(run, fspath(path), tree, io, wait=True))
    if error is not None:
        raise error
    run.saved[contents] = _batches(run)
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
