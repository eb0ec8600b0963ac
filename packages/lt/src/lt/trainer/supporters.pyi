# Written by tools/stubs.py from the table in the module beside it.

from lt_data.combined import CombinedLoader as CombinedLoader

__all__ = [
    "CombinedLoader",
]
