# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_cli import ArgsType as ArgsType
from lt_cli import LRSchedulerCallable as LRSchedulerCallable
from lt_cli import LRSchedulerTypeTuple as LRSchedulerTypeTuple
from lt_cli import LRSchedulerTypeUnion as LRSchedulerTypeUnion
from lt_cli import OptimizerCallable as OptimizerCallable
from lt_cli.config.argument_parser import LightningArgumentParser as LightningArgumentParser
from lt_cli.config.argument_parser import ReduceLROnPlateau as ReduceLROnPlateau
from lt_cli.config.optimizers import instantiate_class as instantiate_class
from lt_cli.config.saved import SaveConfigCallback as SaveConfigCallback
from lt_cli.lightning_cli import LightningCLI as LightningCLI

__all__ = [
    "ArgsType",
    "LRSchedulerCallable",
    "LRSchedulerTypeTuple",
    "LRSchedulerTypeUnion",
    "LightningArgumentParser",
    "LightningCLI",
    "OptimizerCallable",
    "ReduceLROnPlateau",
    "SaveConfigCallback",
    "instantiate_class",
]
