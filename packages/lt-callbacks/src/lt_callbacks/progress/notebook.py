"""A bar in a notebook without widgets: a line of plain text that is replaced."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any


@cache
def has_widgets() -> bool:
    """Return whether notebooks have widgets here."""
    return find_spec("ipywidgets") is not None


class NotebookLine:
    """A file for tqdm: what is written after the last carriage return is the cell's whole output."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self._text = ""
        self._handle: Any = None

    def write(self, text: str) -> int:
        """Take the text; ``flush`` shows it."""
        self._text = (self._text + text).rstrip("\n").rpartition("\r")[2]
        return len(text)

    def flush(self) -> None:
        """Replace the line."""
        display = import_module("IPython.display").display
        shown = {"text/plain": self._text.rstrip()}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)
