"""Micro-batches found by memory, and reports of a device's memory: imported where the Trainer needs them."""

from importlib.metadata import version

from lt_memory.micro_batches import MicroBatches

__version__ = version("lt-memory")

__all__ = ["MicroBatches"]
