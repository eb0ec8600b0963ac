# Written by tools/stubs.py from the table in the module beside it.

from lt_loops.trainer import Trainer as Trainer

__all__ = [
    "Trainer",
]
