# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.progress.progress_bar import ProgressBar as ProgressBar

__all__ = [
    "ProgressBar",
]
