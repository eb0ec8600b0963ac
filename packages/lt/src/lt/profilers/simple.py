"""Names of `lightning.pytorch.profilers.simple`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "SimpleProfiler": "lt_callbacks.profilers.simple:SimpleProfiler",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
