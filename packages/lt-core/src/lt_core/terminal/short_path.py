"""Paths as they are shown."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["short_path"]


def short_path(path: str | os.PathLike[str]) -> str:
    """Return the path as seen from the working directory where it lies below it; a URL as it is."""
    text, here = os.fspath(path), Path.cwd()
    absolute = Path(text).absolute()
    return str(absolute.relative_to(here)) if "://" not in text and absolute.is_relative_to(here) else text
