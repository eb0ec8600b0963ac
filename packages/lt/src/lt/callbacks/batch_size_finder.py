"""Names of `lightning.pytorch.callbacks.batch_size_finder`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "BatchSizeFinder": "lt_callbacks:BatchSizeFinder",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
