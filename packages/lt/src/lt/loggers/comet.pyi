# Written by tools/stubs.py from the table in the module beside it.

from lt_loggers.comet import CometLogger as CometLogger

__all__ = [
    "CometLogger",
]
