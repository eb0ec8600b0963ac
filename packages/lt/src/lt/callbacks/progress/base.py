"""Names of `pytorch_lightning.callbacks.progress.base`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "ProgressBar": "lt_callbacks.progress.progress_bar:ProgressBar",
    "ProgressBarBase": "lt_callbacks.progress.progress_bar:ProgressBar",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
