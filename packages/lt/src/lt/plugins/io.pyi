# Written by tools/stubs.py from the table in the module beside it.

from lt_core.background import AsyncCheckpointIO as AsyncCheckpointIO
from lt_core.checkpoint import CheckpointIO as CheckpointIO
from lt_core.checkpoint import CheckpointIO as TorchCheckpointIO

__all__ = [
    "AsyncCheckpointIO",
    "CheckpointIO",
    "TorchCheckpointIO",
]
