# Written by tools/stubs.py from the table in the module beside it.

from lt_core.callback import Callback as Callback

__all__ = [
    "Callback",
]
