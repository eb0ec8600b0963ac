# Written by tools/stubs.py from the table in the module beside it.

from lt_core.strategy import SingleDevice as SingleDeviceStrategy

__all__ = [
    "SingleDeviceStrategy",
]
