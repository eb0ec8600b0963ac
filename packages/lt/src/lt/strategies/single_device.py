"""Names of `lightning.pytorch.strategies.single_device`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "SingleDeviceStrategy": "lt_core.strategy:SingleDevice",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
