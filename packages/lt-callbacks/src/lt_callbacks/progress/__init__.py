"""Progress bars: drawn by rich, and as plain lines where stdout is no terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lt_callbacks.progress.progress_bar import ProgressBar as ProgressBar
    from lt_callbacks.progress.rich_progress import RichProgressBar as RichProgressBar
    from lt_callbacks.progress.rich_progress import RichProgressBarTheme as RichProgressBarTheme
    from lt_callbacks.progress.tqdm_progress import TQDMProgressBar as TQDMProgressBar

__all__ = ["ProgressBar", "RichProgressBar", "RichProgressBarTheme", "TQDMProgressBar"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import lt_callbacks

    return getattr(lt_callbacks, name)
