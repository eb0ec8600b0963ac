# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import Checkpoint as Checkpoint

__all__ = [
    "Checkpoint",
]
