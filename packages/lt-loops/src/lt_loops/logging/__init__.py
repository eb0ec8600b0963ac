"""The values of ``self.log``: sums by hook, loader and name, over ranks, kept by a checkpoint."""
