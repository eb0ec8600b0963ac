"""The old place of ``prepare_once``, which lt-recipes has."""

from typing import Any

from lt_core.plugins import load_name


def __getattr__(name: str) -> Any:
    return load_name(__name__, {}, name)
