"""Names of `pytorch_lightning.trainer.supporters`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "CombinedLoader": "lt_data:CombinedLoader",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
