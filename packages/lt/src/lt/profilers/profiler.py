"""Names of `lightning.pytorch.profilers.profiler`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "Profiler": "lt_core.profiler:Profiler",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
