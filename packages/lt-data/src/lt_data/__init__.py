"""Data for lt: LightningDataModule, sharding, resumable loaders, prefetch and CombinedLoader."""
