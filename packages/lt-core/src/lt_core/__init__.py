"""What all parts of lt agree on: LightningModule, Callback, hooks and the small interfaces with working defaults."""
