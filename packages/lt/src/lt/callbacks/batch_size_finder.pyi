# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.batch_size_finder import BatchSizeFinder as BatchSizeFinder

__all__ = [
    "BatchSizeFinder",
]
