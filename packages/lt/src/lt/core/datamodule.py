"""Names of `lightning.pytorch.core.datamodule`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "LightningDataModule": "lt_data:LightningDataModule",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
