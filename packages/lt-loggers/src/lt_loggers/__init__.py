"""Loggers for lt: CSV, TensorBoard and third-party experiment trackers, each of those an extra."""
