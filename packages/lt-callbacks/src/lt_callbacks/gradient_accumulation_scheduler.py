"""Scheduled accumulation is in lt-tuning now; its name is still found here."""

from typing import Any


def __getattr__(name: str) -> Any:
    from lt_core.plugins import load_name

    return load_name("lt_callbacks", {}, name)
