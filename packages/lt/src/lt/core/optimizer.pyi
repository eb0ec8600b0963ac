# Written by tools/stubs.py from the table in the module beside it.

from lt_core.optimizer import LightningOptimizer as LightningOptimizer

__all__ = [
    "LightningOptimizer",
]
