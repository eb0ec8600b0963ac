"""Names of `pytorch_lightning.core.lightning`, a path of the old guides."""

from lt.lazy import lazy

NAMES = {
    "LightningModule": "lt_core.module:LightningModule",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
