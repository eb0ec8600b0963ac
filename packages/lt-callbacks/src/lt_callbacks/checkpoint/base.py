"""The base of callbacks that save checkpoints."""

from __future__ import annotations

from time import monotonic, sleep

from lt_core.callback import Callback
from lt_core.errors import warn
from lt_core.trainer import TrainerAPI

__all__ = ["Checkpoint"]

_SECONDS = 2.0
"""How long the other ranks may take to meet the same exception."""


class Checkpoint(Callback):
    """Base of callbacks that save checkpoints: the Trainer then adds no :class:`ModelCheckpoint` of its own."""

    role = "checkpoint"
    monitors = True

    def kept_paths(self) -> set[str]:
        """Return the checkpoints that this callback keeps or has asked for.

        Another callback of the same run neither writes over them nor deletes them. By default none is known.
        """
        return set()

    def _remove_checkpoint(self, trainer: TrainerAPI, filepath: str) -> None:
        """Delete a checkpoint that is no longer kept; existing subclasses also delete files beside it."""
        trainer.remove_checkpoint(filepath)

    def owns(self, path: str) -> bool:
        """Return whether this callback wrote ``path``; callbacks that share its file names may replace it."""
        return False


def failed_together(who: str, trainer: TrainerAPI) -> bool:
    """Return whether all ranks end with an exception at this step; warn if only some do.

    Ranks that go on wait in a collective of the training, and would never join the checkpoint's.

    Args:
        who: name of the callback that wants to save.
        trainer: in ``on_exception``.
    """
    strategy, ranks = trainer.strategy, range(trainer.world_size)
    if len(ranks) == 1:
        return True
    key = f"failed/{trainer.global_step}"
    deadline = monotonic() + _SECONDS
    try:
        strategy.post(f"{key}/{trainer.global_rank}", "yes")
        while going_on := [rank for rank in ranks if strategy.peek(f"{key}/{rank}") is None]:
            if monotonic() > deadline:
                break
            sleep(0.05)
    except RuntimeError:  # the ranks' store is gone, and with it the rank that held it
        going_on = [rank for rank in ranks if rank != trainer.global_rank]
    if going_on:
        warn(
            f"{who} saves nothing: rank {trainer.global_rank} failed alone (not rank "
            f"{', '.join(map(str, going_on))}), and a checkpoint takes all ranks. The last one that was saved before "
            "resumes the run.",
            code="LT642",
        )
    return not going_on
