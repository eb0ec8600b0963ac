"""Names of `lightning.pytorch.callbacks.checkpoint`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "Checkpoint": "lt_callbacks:Checkpoint",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
