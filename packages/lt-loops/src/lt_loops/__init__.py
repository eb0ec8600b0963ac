"""Trainer, and the fit / evaluate / predict loops that call the hooks; run state and resume."""

from typing import TYPE_CHECKING

from lt_loops.fit_result import FitResult
from lt_loops.trainer import Trainer

__version__: str

__all__ = ["FitResult", "Trainer"]

if not TYPE_CHECKING:  # else any name would be one to a type checker

    def __getattr__(name: str) -> str:
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version  # it parses the package's whole description

        return version("lt-loops")
