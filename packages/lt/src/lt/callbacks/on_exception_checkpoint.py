"""Names of `lightning.pytorch.callbacks.on_exception_checkpoint`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "OnExceptionCheckpoint": "lt_callbacks:OnExceptionCheckpoint",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
