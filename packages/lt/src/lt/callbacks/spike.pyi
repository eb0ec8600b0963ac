# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.spike import SpikeDetection as SpikeDetection

__all__ = [
    "SpikeDetection",
]
