"""Names of `lightning.pytorch.callbacks.progress.tqdm_progress`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "TQDMProgressBar": "lt_callbacks:TQDMProgressBar",
    "Tqdm": "lt_callbacks.progress.tqdm_progress:Tqdm",
    "convert_inf": "lt_callbacks.progress.tqdm_progress:convert_inf",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
