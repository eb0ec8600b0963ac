# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.lr_finder import LearningRateFinder as LearningRateFinder

__all__ = [
    "LearningRateFinder",
]
