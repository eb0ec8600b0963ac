"""Names of `lightning.pytorch.trainer.trainer`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "Trainer": "lt_loops:Trainer",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
