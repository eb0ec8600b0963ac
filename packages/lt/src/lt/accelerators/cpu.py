"""Names of `lightning.pytorch.accelerators.cpu`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "CPUAccelerator": "lt_core.accelerator:Cpu",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
