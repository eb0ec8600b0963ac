# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.weight_averaging import EMAWeightAveraging as EMAWeightAveraging
from lt_callbacks.weight_averaging import WeightAveraging as WeightAveraging

__all__ = [
    "EMAWeightAveraging",
    "WeightAveraging",
]
