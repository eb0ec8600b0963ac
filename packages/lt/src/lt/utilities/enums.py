"""Names of `lightning.pytorch.utilities.enums`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "GradClipAlgorithmType": "lt_core.states:GradClipAlgorithmType",
    "LightningEnum": "lt_core.states:LightningEnum",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
