"""Checkpoint IO: how a checkpoint becomes a file."""

from lt.lazy import lazy

NAMES = {
    "AsyncCheckpointIO": "lt_core.background:AsyncCheckpointIO",
    "CheckpointIO": "lt_core.checkpoint:CheckpointIO",
    "TorchCheckpointIO": "lt_core.checkpoint:CheckpointIO",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
