"""Names of `lightning.pytorch.callbacks.lr_finder`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "LearningRateFinder": "lt_callbacks:LearningRateFinder",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
