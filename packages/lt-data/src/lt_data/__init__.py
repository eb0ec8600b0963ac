"""Data for lt: LightningDataModule, sharding, resumable loaders, prefetch and CombinedLoader."""

from importlib.metadata import version

from lt_data.combined import CombinedLoader
from lt_data.datamodule import LightningDataModule
from lt_data.preparing import prepare_once
from lt_data.shuffle import BlockShuffle
from lt_data.token_budget import TokenBudget

__version__ = version("lt-data")

__all__ = ["BlockShuffle", "CombinedLoader", "LightningDataModule", "TokenBudget", "prepare_once"]
