# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.early_stopping import EarlyStopping as EarlyStopping

__all__ = [
    "EarlyStopping",
]
