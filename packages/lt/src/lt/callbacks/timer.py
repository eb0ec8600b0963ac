"""Names of `lightning.pytorch.callbacks.timer`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "Timer": "lt_callbacks:Timer",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
