"""Checkpoints of a run: what is in one, how it is saved and restored, and which file is meant."""
