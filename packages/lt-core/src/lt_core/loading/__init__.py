"""Modules and weights from checkpoints."""
