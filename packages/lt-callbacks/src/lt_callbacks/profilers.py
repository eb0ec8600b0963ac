"""Profilers are in lt-profilers now; their names are still found here."""

from typing import Any


def __getattr__(name: str) -> Any:
    from lt_core.plugins import load_name

    return load_name("lt_callbacks", {}, name)
