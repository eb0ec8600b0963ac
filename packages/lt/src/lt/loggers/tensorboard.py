"""Names of `lightning.pytorch.loggers.tensorboard`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "TensorBoardLogger": "lt_loggers:TensorBoardLogger",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
