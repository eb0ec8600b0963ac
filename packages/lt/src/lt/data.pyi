# Written by tools/stubs.py from the table in the module beside it.

from lt_core.data import DataSource as DataSource
from lt_core.data import Feed as Feed
from lt_core.data import make_feed as make_feed
from lt_data.datamodule import LightningDataModule as LightningDataModule

__all__ = [
    "DataSource",
    "Feed",
    "LightningDataModule",
    "make_feed",
]
