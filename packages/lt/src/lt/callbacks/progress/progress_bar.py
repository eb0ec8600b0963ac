"""Names of `lightning.pytorch.callbacks.progress.progress_bar`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "ProgressBar": "lt_callbacks:ProgressBar",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
