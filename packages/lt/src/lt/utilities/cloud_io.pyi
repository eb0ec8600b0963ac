# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import get_filesystem as get_filesystem
from lt_cli.lightning_answers import load as load

__all__ = [
    "get_filesystem",
    "load",
]
