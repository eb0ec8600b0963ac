# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.progress.tqdm_progress import TQDMProgressBar as TQDMProgressBar
from lt_callbacks.progress.tqdm_progress import Tqdm as Tqdm
from lt_callbacks.progress.tqdm_progress import convert_inf as convert_inf

__all__ = [
    "TQDMProgressBar",
    "Tqdm",
    "convert_inf",
]
