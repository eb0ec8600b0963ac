"""Names of `lightning.pytorch.callbacks.progress.rich_progress`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "RichProgressBar": "lt_callbacks:RichProgressBar",
    "RichProgressBarTheme": "lt_callbacks:RichProgressBarTheme",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
