"""Data for lt: LightningDataModule, sharding, resumable loaders, prefetch and CombinedLoader."""

from typing import TYPE_CHECKING

from lt_data.combined import CombinedLoader
from lt_data.datamodule import LightningDataModule
from lt_data.preparing import prepare_once
from lt_data.reread import Reread
from lt_data.shuffle import BlockShuffle
from lt_data.token_budget import TokenBudget

__version__: str

__all__ = ["BlockShuffle", "CombinedLoader", "LightningDataModule", "Reread", "TokenBudget", "prepare_once"]

if not TYPE_CHECKING:  # else any name would be one to a type checker

    def __getattr__(name: str) -> str:
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version  # it parses the package's whole description

        return version("lt-data")
