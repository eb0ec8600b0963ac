# Written by tools/stubs.py from the table in the module beside it.

from lt_core.data import DataSource as DataHooks

__all__ = [
    "DataHooks",
]
