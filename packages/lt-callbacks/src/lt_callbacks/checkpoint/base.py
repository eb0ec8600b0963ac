"""What a callback that saves checkpoints is."""

from __future__ import annotations

from lt_core.callback import Callback
from lt_core.trainer import TrainerAPI

__all__ = ["Checkpoint"]


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
        """Delete a checkpoint that is kept no longer; subclasses in the wild delete what lies beside it too."""
        trainer.remove_checkpoint(filepath)

    def owns(self, path: str) -> bool:
        """Return whether this callback wrote ``path``, so that those who share their names with it may replace it."""
        return False
