# Written by tools/stubs.py from the table in the module beside it.

from lt_data.datamodule import LightningDataModule as LightningDataModule

__all__ = [
    "LightningDataModule",
]
