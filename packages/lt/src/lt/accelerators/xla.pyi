# Written by tools/stubs.py from the table in the module beside it.

from lt_strategies.xla_device import Xla as XLAAccelerator

__all__ = [
    "XLAAccelerator",
]
