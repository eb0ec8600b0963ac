"""Names of `lightning.pytorch.callbacks.weight_averaging`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "EMAWeightAveraging": "lt_callbacks:EMAWeightAveraging",
    "WeightAveraging": "lt_callbacks:WeightAveraging",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
