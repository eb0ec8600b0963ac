"""Names of `lightning.pytorch.profilers.xla`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "XLAProfiler": "lt_callbacks.profilers.xla:XLAProfiler",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
