"""Names of `lightning.pytorch.accelerators.accelerator`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "Accelerator": "lt_core.accelerator:Accelerator",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
