"""Names of `lightning.pytorch.callbacks.early_stopping`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "EarlyStopping": "lt_callbacks:EarlyStopping",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
