# Written by tools/stubs.py from the table in the module beside it.

from lt_core.hparams import HyperparametersMixin as HyperparametersMixin

__all__ = [
    "HyperparametersMixin",
]
