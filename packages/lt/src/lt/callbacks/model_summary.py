"""Names of `lightning.pytorch.callbacks.model_summary`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "ModelSummary": "lt_callbacks:ModelSummary",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
