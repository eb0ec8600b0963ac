"""Callbacks that average the weights of a run."""
