"""The base classes of ``LightningModule`` and ``Callback``: ``lt_core`` promises the names, not these modules."""
