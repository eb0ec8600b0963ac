# Written by tools/stubs.py from the table in the module beside it.

from lt_loggers.csv_file import CSVLogger as CSVLogger

__all__ = [
    "CSVLogger",
]
