# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.on_exception_checkpoint import OnExceptionCheckpoint as OnExceptionCheckpoint

__all__ = [
    "OnExceptionCheckpoint",
]
