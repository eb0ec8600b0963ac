"""Files: atomic writes, the contents and headers of checkpoints, and their types."""
