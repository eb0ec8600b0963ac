"""Names of `lightning.pytorch.callbacks.progress`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "ProgressBar": "lt_callbacks:ProgressBar",
    "ProgressBarBase": "lt_callbacks.progress.progress_bar:ProgressBar",
    "RichProgressBar": "lt_callbacks:RichProgressBar",
    "TQDMProgressBar": "lt_callbacks:TQDMProgressBar",
}
"""Each name, and where it comes from."""

MODULES = (
    "base",
    "progress_bar",
    "rich_progress",
    "tqdm_progress",
)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
