# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt.version import __version__ as __version__
from lt_core.callback import Callback as Callback
from lt_core.module import LightningModule as LightningModule
from lt_core.seed import seed_everything as seed_everything
from lt_data.datamodule import LightningDataModule as LightningDataModule
from lt_loops.fit_result import FitResult as FitResult
from lt_loops.trainer import Trainer as Trainer
from lt import accelerators as accelerators
from lt import callbacks as callbacks
from lt import cli as cli
from lt import compat as compat
from lt import data as data
from lt import errors as errors
from lt import huggingface as huggingface
from lt import launchers as launchers
from lt import loggers as loggers
from lt import media as media
from lt import plugins as plugins
from lt import profilers as profilers
from lt import recipes as recipes
from lt import strategies as strategies
from lt import testing as testing
from lt import tuner as tuner
from lt import utilities as utilities

__all__ = [
    "Callback",
    "FitResult",
    "LightningDataModule",
    "LightningModule",
    "Trainer",
    "__version__",
    "accelerators",
    "callbacks",
    "cli",
    "compat",
    "data",
    "errors",
    "huggingface",
    "launchers",
    "loggers",
    "media",
    "plugins",
    "profilers",
    "recipes",
    "seed_everything",
    "strategies",
    "testing",
    "tuner",
    "utilities",
]
