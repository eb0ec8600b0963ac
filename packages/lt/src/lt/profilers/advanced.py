"""Names of `lightning.pytorch.profilers.advanced`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "AdvancedProfiler": "lt_callbacks.profilers.advanced:AdvancedProfiler",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
