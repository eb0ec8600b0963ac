# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.progress.progress_bar import ProgressBar as ProgressBar
from lt_callbacks.progress.progress_bar import ProgressBar as ProgressBarBase
from lt_callbacks.progress.rich_progress import RichProgressBar as RichProgressBar
from lt_callbacks.progress.tqdm_progress import TQDMProgressBar as TQDMProgressBar
from lt.callbacks.progress import base as base
from lt.callbacks.progress import progress_bar as progress_bar
from lt.callbacks.progress import rich_progress as rich_progress
from lt.callbacks.progress import tqdm_progress as tqdm_progress

__all__ = [
    "ProgressBar",
    "ProgressBarBase",
    "RichProgressBar",
    "TQDMProgressBar",
    "base",
    "progress_bar",
    "rich_progress",
    "tqdm_progress",
]
