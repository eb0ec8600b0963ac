"""Names of `pytorch_lightning.callbacks.base`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "Callback": "lt_core.callback:Callback",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
