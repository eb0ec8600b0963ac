# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.finetuning import BackboneFinetuning as BackboneFinetuning
from lt_callbacks.finetuning import BaseFinetuning as BaseFinetuning

__all__ = [
    "BackboneFinetuning",
    "BaseFinetuning",
]
