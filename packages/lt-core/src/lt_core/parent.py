"""Processes that one process starts end with it, however it ends: ranks of a launcher, workers of a loader."""

from __future__ import annotations

import multiprocessing
import os
import threading

__all__ = ["end_with_parent"]


def end_with_parent() -> None:
    """End this process as soon as the one that started it by :mod:`multiprocessing` is gone, killed or not.

    Does nothing in a process that was started otherwise.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True, name="lt-parent").start()
