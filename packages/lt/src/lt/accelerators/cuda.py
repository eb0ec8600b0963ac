"""Names of `lightning.pytorch.accelerators.cuda`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "CUDAAccelerator": "lt_strategies.cuda:Cuda",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
