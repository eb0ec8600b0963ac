"""Micro-batches found by memory, and what holds the memory of a device: imported where the Trainer is asked for it."""

from importlib.metadata import version

from lt_memory.micro_batches import MicroBatches

__version__ = version("lt-memory")

__all__ = ["MicroBatches"]
