"""The TensorBoard logger and its files; TensorBoard itself is imported at the first write."""
