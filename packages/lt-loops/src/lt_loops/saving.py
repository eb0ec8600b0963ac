"""Save points: callbacks ask, the loop saves when a boundary is complete."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lt_core.errors import CheckpointError, warn
from lt_core.partial_save import Contents
from lt_loops.profiled import measured_save
from lt_loops.state import capture

if TYPE_CHECKING:
    from lt_core.callback import Callback
    from lt_loops.run import Run

__all__ = ["SaveRequest", "confirm_saves", "save_now", "serve_requests"]


class SaveRequest(NamedTuple):
    """A checkpoint that somebody asked for."""

    path: str
    contents: Contents
    owner: Callback | None


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
    run.sink.each(lambda logger: logger.save())
    for request in requests:
        if request.contents not in kept:
            kept[request.contents] = capture(run, request.contents)
        run.unconfirmed.append(request)
        try:
            _write(run, request.path, kept[request.contents])
        except (CheckpointError, OSError) as error:
            run.unconfirmed.remove(request)
            _report(run, request, error)
            continue
        if request.owner is not None:
            owner = request.owner
            owner.on_saved(request.path)
            run.sink.each(lambda logger, owner=owner: logger.after_save_checkpoint(owner))  # type: ignore[misc]


def confirm_saves(run: Run) -> None:
    """Wait for what is written in the background, and report what failed."""
    pending, run.unconfirmed = run.unconfirmed, []
    try:
        run.trainer.checkpoint_io.wait()
    except (CheckpointError, OSError) as error:
        for request in pending:
            _report(run, request, error)
    else:
        run.saved += len(pending)


def _report(run: Run, request: SaveRequest, error: BaseException) -> None:
    """Say loudly that a save failed; training goes on, older checkpoints stay."""
    run.save_error = error
    warn(
        f"CHECKPOINT NOT SAVED: {request.path}: {error}. Training goes on and older checkpoints stay; make room or "
        "give access, the next save tries again.",
        code="LT640",
        stacklevel=5,
    )
    if request.owner is not None:
        request.owner.on_save_failed(request.path, error)


def save_now(run: Run, path: str | PathLike[str], contents: Contents) -> None:
    """Write a checkpoint of this moment; it is complete when this returns, on every rank."""
    with measured_save(run):
        _write(run, fspath(path), capture(run, contents))
        run.trainer.checkpoint_io.wait()
    if not run.is_live:
        run.trainer.checkpoint_io.teardown()
    if run.strategy.world_size > 1:
        run.strategy.barrier("save_checkpoint")


def _write(run: Run, path: str, tree: dict[str, Any]) -> None:
    if run.strategy.rank == 0 and "://" not in path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    run.strategy.save_checkpoint(run.trainer.checkpoint_io, tree, path)
