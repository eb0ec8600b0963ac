"""Names of `lightning.pytorch.accelerators.mps`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "MPSAccelerator": "lt_strategies.mps:Mps",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
