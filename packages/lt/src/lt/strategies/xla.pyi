# Written by tools/stubs.py from the table in the module beside it.

from lt_strategies.xla import XLA as XLAStrategy

__all__ = [
    "XLAStrategy",
]
