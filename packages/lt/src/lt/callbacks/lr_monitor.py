"""Names of `lightning.pytorch.callbacks.lr_monitor`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "LearningRateMonitor": "lt_callbacks:LearningRateMonitor",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
