# Written by tools/stubs.py from the table in the module beside it.

from lt_core.accelerator import Cpu as CPUAccelerator

__all__ = [
    "CPUAccelerator",
]
