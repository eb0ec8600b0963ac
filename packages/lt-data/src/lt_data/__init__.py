"""Data for lt: LightningDataModule, sharding, resumable loaders, prefetch and CombinedLoader."""

from lt_data.datamodule import LightningDataModule

__all__ = ["LightningDataModule"]
