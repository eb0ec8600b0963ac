"""Names of `lightning.pytorch.callbacks.model_checkpoint`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "ModelCheckpoint": "lt_callbacks:ModelCheckpoint",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
