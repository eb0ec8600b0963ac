# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.checkpoint_base import Checkpoint as Checkpoint

__all__ = [
    "Checkpoint",
]
