# Written by tools/stubs.py from the table in the module beside it.

from lt_core.module import LightningModule as LightningModule

__all__ = [
    "LightningModule",
]
