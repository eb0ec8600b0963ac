"""Names of `lightning.pytorch.callbacks.spike`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "SpikeDetection": "lt_callbacks:SpikeDetection",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
