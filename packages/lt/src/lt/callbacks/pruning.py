"""Names of `lightning.pytorch.callbacks.pruning`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "ModelPruning": "lt_callbacks:ModelPruning",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
