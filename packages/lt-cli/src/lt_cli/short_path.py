"""Paths as they are shown."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["short_path"]


def short_path(path: Path) -> str:
    """Return the path as seen from the working directory where it lies below it."""
    absolute = path.absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else os.fspath(path)
