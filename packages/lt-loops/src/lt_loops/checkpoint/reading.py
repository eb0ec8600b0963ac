"""A checkpoint that a run starts from: read, and refused where nothing can resume from it."""

from collections.abc import Callable

from lt_core.checkpoint import CheckpointIO
from lt_core.dialect import dialects
from lt_core.errors import CheckpointError, warn
from lt_core.files.checkpoint_header import warn_of_newer
from lt_core.files.typed_data import with_types
from lt_core.strategy import Strategy
from lt_core.terminal import short_path, waiting
from lt_loops.former_names import understood_by
from lt_loops.state.origin import Saved
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
    if resumes and (gaps := tree.get("gaps")):
        warn(f"{path} was saved without {listed(gaps)}. That begins anew.", code="LT607")
    # a rank that repeats a run of one process takes the place of rank 0
    return Saved.of(tree, path, resumes=resumes, rank=rank % strategy.world_size, parts=parts)


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
