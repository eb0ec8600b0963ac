# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.prediction_writer import BasePredictionWriter as BasePredictionWriter
from lt_callbacks.prediction_writer import WriteInterval as WriteInterval

__all__ = [
    "BasePredictionWriter",
    "WriteInterval",
]
