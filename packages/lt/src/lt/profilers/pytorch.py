"""Names of `lightning.pytorch.profilers.pytorch`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "PyTorchProfiler": "lt_callbacks.profilers.pytorch:PyTorchProfiler",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
