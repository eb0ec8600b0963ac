# Written by tools/stubs.py from the table in the module beside it.

from lt_core.hparams import AttributeDict as AttributeDict

__all__ = [
    "AttributeDict",
]
