"""Files of checkpoints: choosing, reading and checking them."""
