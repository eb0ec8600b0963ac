"""The TensorBoard logger, and what writes its files; TensorBoard itself is imported for ``experiment`` alone."""
