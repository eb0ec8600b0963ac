"""Names of `lightning.pytorch.callbacks.prediction_writer`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "BasePredictionWriter": "lt_callbacks:BasePredictionWriter",
    "WriteInterval": "lt_callbacks.prediction_writer:WriteInterval",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
