# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.finetuning import BackboneFinetuning as BackboneFinetuning
from lt_callbacks.finetuning import BaseFinetuning as BaseFinetuning
from lt_callbacks.finetuning import multiplicative as multiplicative

__all__ = [
    "BackboneFinetuning",
    "BaseFinetuning",
    "multiplicative",
]
