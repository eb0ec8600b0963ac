# Written by tools/stubs.py from the table in the module beside it.

from lt_core.logger import Logger as Logger

__all__ = [
    "Logger",
]
