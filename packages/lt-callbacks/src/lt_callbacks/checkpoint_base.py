"""What a callback that saves checkpoints is."""

from __future__ import annotations

from lt_core.callback import Callback

__all__ = ["Checkpoint"]


class Checkpoint(Callback):
    """Base of callbacks that save checkpoints: the Trainer then adds no :class:`ModelCheckpoint` of its own."""

    role = "checkpoint"
    monitors = True
