"""Names of `lightning.pytorch.callbacks.progress.tqdm_progress`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "TQDMProgressBar": "lt_callbacks:TQDMProgressBar",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
