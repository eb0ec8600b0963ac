# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.stochastic_weight_avg import StochasticWeightAveraging as StochasticWeightAveraging

__all__ = [
    "StochasticWeightAveraging",
]
