"""Names of `pytorch_lightning.accelerators.tpu`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "TPUAccelerator": "lt_strategies.xla_device:Xla",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
