"""Names of `lightning.pytorch.callbacks.stochastic_weight_avg`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "StochasticWeightAveraging": "lt_callbacks:StochasticWeightAveraging",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
