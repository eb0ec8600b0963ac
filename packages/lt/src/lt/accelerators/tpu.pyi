# Written by tools/stubs.py from the table in the module beside it.

from lt_strategies.xla_device import Xla as TPUAccelerator

__all__ = [
    "TPUAccelerator",
]
