# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_core.data import DataSource as DataSource
from lt_core.data import Feed as Feed
from lt_core.data import make_feed as make_feed
from lt_data.combined import CombinedLoader as CombinedLoader
from lt_data.datamodule import LightningDataModule as LightningDataModule
from lt_recipes.block_shuffle import BlockShuffle as BlockShuffle
from lt_recipes.packing import pack as pack
from lt_recipes.preparing import prepare_once as prepare_once
from lt_recipes.reread import Reread as Reread
from lt_recipes.token_budget import TokenBudget as TokenBudget

__all__ = [
    "BlockShuffle",
    "CombinedLoader",
    "DataSource",
    "Feed",
    "LightningDataModule",
    "Reread",
    "TokenBudget",
    "make_feed",
    "pack",
    "prepare_once",
]
