"""Names of `lightning.pytorch.tuner.tuning`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "Tuner": "lt_callbacks:Tuner",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
