"""What ``LightningModule`` and ``Callback`` are made of: ``lt_core`` promises the names, not these modules."""
