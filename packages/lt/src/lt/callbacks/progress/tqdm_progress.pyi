# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.progress.tqdm_progress import TQDMProgressBar as TQDMProgressBar

__all__ = [
    "TQDMProgressBar",
]
