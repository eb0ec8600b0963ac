"""Data for lt: LightningDataModule, sharding, resumable loaders, prefetch and CombinedLoader."""

from typing import TYPE_CHECKING, Any

from lt_data.combined import CombinedLoader
from lt_data.datamodule import LightningDataModule

__version__: str

__all__ = ["CombinedLoader", "LightningDataModule"]

if not TYPE_CHECKING:  # else any name would be one to a type checker

    def __getattr__(name: str) -> Any:
        from lt_core.plugins import load_name

        return load_name(__name__, {}, name)
