"""Names of `lightning.pytorch.callbacks.rich_model_summary`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "RichModelSummary": "lt_callbacks:RichModelSummary",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
