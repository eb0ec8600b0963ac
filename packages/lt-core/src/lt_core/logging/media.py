"""Kinds of media are in lt-loggers now; loggers written for 0.1 find their names here."""

from typing import Any


def __getattr__(name: str) -> Any:
    from lt_core.plugins import load_name

    return load_name(__name__, {}, name)
