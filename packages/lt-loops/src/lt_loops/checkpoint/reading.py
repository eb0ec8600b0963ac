"""A checkpoint that a run starts from: read, and refused where nothing can resume from it."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from lt_core.checkpoint import CheckpointIO
from lt_core.dialect import dialects
from lt_core.errors import CheckpointError, warn
from lt_core.files.checkpoint_header import warn_of_newer
from lt_core.files.typed_data import with_types
from lt_core.strategy import Strategy
from lt_core.terminal import short_path, waiting
from lt_loops.former_names import understood_by
from lt_loops.state.origin import Saved
from lt_loops.state.position import NEVER, Position
from lt_loops.state.unsaved import listed


def read_checkpoint(
    path: str, strategy: Strategy, io: CheckpointIO, *, trusted: bool, resumes: bool, says: bool
) -> Saved:
    """Read the checkpoint that a run was asked for, before anything is set up that depends on it.

    ``trusted``: it may run code as it is read; ``resumes``: a fit goes on from it; ``says``: this process says that it
    waits.
    """
    with waiting(f"the checkpoint {short_path(path)}", says=says):
        tree = with_types(strategy.load_checkpoint(io, path, trusted=trusted))
    rank = strategy.rank
    if rank == 0:
        warn_of_newer(tree, path)
    if not isinstance(tree.get("state_dict"), dict):
        raise CheckpointError(
            f"{path}: expected a checkpoint with the key 'state_dict', found {sorted(map(str, tree))[:8]}. For bare "
            "weights call module.load_state_dict(...) yourself.",
            code="LT601",
        )
    parts = strategy.gather_objects(tuple(strategy.data_shard))
    if resumes and "optimizer_states" not in tree:
        raise CheckpointError(
            f"{path} holds weights only (save_weights_only=True), so training cannot resume from it. For a warm start "
            "load it by load_from_checkpoint and call fit without ckpt_path.",
            code="LT602",
        )
    if resumes and "lt" in tree and (fault := next(_faults(tree["lt"]), None)):
        raise CheckpointError(
            f"{path}: {fault}. The file is not as lt wrote it: resume from another one, or for a warm start load it by "
            "load_from_checkpoint and call fit without ckpt_path.",
            code="LT602",
        )
    if resumes and (gaps := tree.get("gaps")):
        warn(f"{path} was saved without {listed(gaps)}. That begins anew.", code="LT607")
    # a rank that repeats a run of one process takes the place of rank 0
    return Saved.of(tree, path, resumes=resumes, rank=rank % strategy.world_size, parts=parts)


def _faults(lt: Any) -> Iterator[str]:
    """Yield the faults in the part of a file from which a run goes on."""
    yield from _wrong("lt", lt, position=dict, pending=dict, precision=dict, ranks=list, world_size=int)
    yield from _wrong("lt.pending", lt["pending"], divisor=float, counted=int, weight=float, weighted=bool)
    yield from _wrong("lt.position", lt["position"], **asdict(Position(extra=-NEVER)))
    for rank, state in enumerate(lt["ranks"] or [None]):
        own = f"lt.ranks[{rank}]"
        yield from _wrong(own, state, gradients=dict, generators=dict, recorder=dict)
        yield from _wrong(f"{own}.recorder", state["recorder"], pages=list, values=dict)
        if state.get("feed") is not None:
            yield from _wrong(f"{own}.feed", state["feed"], epoch=0, batches=0)


def _wrong(name: str, value: Any, **parts: Any) -> Iterator[str]:
    """Yield which parts are not as they should be: of a type, or (older files lack some) of a number or more."""
    if not isinstance(value, dict):
        yield f"{name} is {value!r:.40}; expected dict"
    for part, wanted in parts.items():
        kind, least = (wanted, None) if isinstance(wanted, type) else (float, wanted)
        found = value.get(part, least)
        if not isinstance(found, (int, float) if kind is float else kind) or (least is not None and found < least):
            yield f"{name}.{part} is {found!r:.40}; expected {kind.__name__ if least is None else f'{least} or more'}"


def place_of_others(
    saved: Saved, *, optimizers: int, batches: int | None, window: Callable[[int], int]
) -> tuple[int, int, int]:
    """Return epoch, batch and step where the run stood that wrote a file which is not lt's, as a dialect reads it.

    ``batches``: of an epoch; ``window``: batches of an optimizer step in an epoch.

    Raises:
        CheckpointError: where none does.
    """
    tree = saved.tree
    read = (dialect.progress(tree, optimizers=optimizers, batches=batches, window=window) for dialect in dialects())
    progress = next((found for found in read if found is not None), None)
    if progress is None:
        raise CheckpointError(
            f"{saved.path} was not written by lt: expected the key 'lt', found {sorted(map(str, tree))[:8]}. For "
            "a warm start load its weights by load_from_checkpoint and call fit without ckpt_path. "
            f"{understood_by('checkpoints of Lightning')}",
            code="LT602",
        )
    return progress
