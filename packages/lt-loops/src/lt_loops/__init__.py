"""Trainer, and the fit / evaluate / predict loops that call the hooks; run state and resume."""

from importlib.metadata import version

from lt_loops.fit_result import FitResult
from lt_loops.trainer import Trainer

__version__ = version("lt-loops")

__all__ = ["FitResult", "Trainer"]
