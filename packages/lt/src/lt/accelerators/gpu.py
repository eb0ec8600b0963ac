"""Names of `pytorch_lightning.accelerators.gpu`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "GPUAccelerator": "lt_strategies.cuda:Cuda",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
