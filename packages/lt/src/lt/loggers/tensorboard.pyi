# Written by tools/stubs.py from the table in the module beside it.

from lt_loggers.tensorboard import TensorBoardLogger as TensorBoardLogger

__all__ = [
    "TensorBoardLogger",
]
