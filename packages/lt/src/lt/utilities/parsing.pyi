# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import get_init_args as get_init_args
from lt_cli.lightning_answers import is_picklable as is_picklable
from lt_cli.lightning_answers import lightning_getattr as lightning_getattr
from lt_cli.lightning_answers import lightning_hasattr as lightning_hasattr
from lt_cli.lightning_answers import lightning_setattr as lightning_setattr
from lt_core.hparams import AttributeDict as AttributeDict

__all__ = [
    "AttributeDict",
    "get_init_args",
    "is_picklable",
    "lightning_getattr",
    "lightning_hasattr",
    "lightning_setattr",
]
