# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.prediction_writer import BasePredictionWriter as BasePredictionWriter

__all__ = [
    "BasePredictionWriter",
]
