"""Trainer, and the fit / evaluate / predict loops that call the hooks; run state and resume."""

from lt_loops.trainer import Trainer

__all__ = ["Trainer"]
