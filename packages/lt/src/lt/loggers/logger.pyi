# Written by tools/stubs.py from the table in the module beside it.

from lt_core.logger import DummyExperiment as DummyExperiment
from lt_core.logger import DummyLogger as DummyLogger
from lt_core.logger import Logger as Logger
from lt_core.logger import rank_zero_experiment as rank_zero_experiment

__all__ = [
    "DummyExperiment",
    "DummyLogger",
    "Logger",
    "rank_zero_experiment",
]
