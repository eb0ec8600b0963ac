"""Callbacks that watch a run: learning rates, devices, throughput, memory, losses that are not finite or jump."""
