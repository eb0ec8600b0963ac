# Written by tools/stubs.py from the table in the module beside it.

from lt_core.states import GradClipAlgorithmType as GradClipAlgorithmType
from lt_core.states import LightningEnum as LightningEnum

__all__ = [
    "GradClipAlgorithmType",
    "LightningEnum",
]
