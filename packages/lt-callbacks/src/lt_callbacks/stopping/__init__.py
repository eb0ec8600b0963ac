"""Callbacks that end a run: a metric that no longer improves, a time."""
