"""Callbacks that have checkpoints saved: when, under which names, and which ones are kept."""
