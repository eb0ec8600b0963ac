# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.progress.rich_progress import RichProgressBar as RichProgressBar
from lt_callbacks.progress.rich_progress import RichProgressBarTheme as RichProgressBarTheme

__all__ = [
    "RichProgressBar",
    "RichProgressBarTheme",
]
