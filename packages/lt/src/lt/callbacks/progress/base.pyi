# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.progress.progress_bar import ProgressBar as ProgressBar
from lt_callbacks.progress.progress_bar import ProgressBar as ProgressBarBase

__all__ = [
    "ProgressBar",
    "ProgressBarBase",
]
