# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.profilers.pytorch import PyTorchProfiler as PyTorchProfiler

__all__ = [
    "PyTorchProfiler",
]
