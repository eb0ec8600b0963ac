"""Short trials that find a learning rate or a batch size."""
