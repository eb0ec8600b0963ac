# Written by tools/stubs.py from the table in the module beside it.

from lt_core.overrides import is_overridden as is_overridden

__all__ = [
    "is_overridden",
]
