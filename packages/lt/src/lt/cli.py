"""The command line as a class for your own scripts: ``from lt.cli import LightningCLI``."""

from lt.lazy import lazy

NAMES = {
    "ArgsType": "lt_cli:ArgsType",
    "LRSchedulerCallable": "lt_cli:LRSchedulerCallable",
    "LRSchedulerTypeTuple": "lt_cli:LRSchedulerTypeTuple",
    "LRSchedulerTypeUnion": "lt_cli:LRSchedulerTypeUnion",
    "LightningArgumentParser": "lt_cli:LightningArgumentParser",
    "LightningCLI": "lt_cli:LightningCLI",
    "OptimizerCallable": "lt_cli:OptimizerCallable",
    "ReduceLROnPlateau": "lt_cli:ReduceLROnPlateau",
    "SaveConfigCallback": "lt_cli:SaveConfigCallback",
    "instantiate_class": "lt_cli:instantiate_class",
}

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
