"""Names of `lightning.pytorch.core.optimizer`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "LightningOptimizer": "lt_core.optimizer:LightningOptimizer",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
