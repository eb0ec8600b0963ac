# Written by tools/stubs.py from the table in the module beside it.

from lt_core.types import EVAL_DATALOADERS as EVAL_DATALOADERS
from lt_core.types import LRSchedulerPLType as LRSchedulerPLType
from lt_core.types import LRSchedulerTypeUnion as LRSchedulerTypeUnion
from lt_core.types import OptimizerLRScheduler as OptimizerLRScheduler
from lt_core.types import STEP_OUTPUT as STEP_OUTPUT
from lt_core.types import TRAIN_DATALOADERS as TRAIN_DATALOADERS
from lt_loops.scheduler_config import SchedulerConfig as LRSchedulerConfig

__all__ = [
    "EVAL_DATALOADERS",
    "LRSchedulerConfig",
    "LRSchedulerPLType",
    "LRSchedulerTypeUnion",
    "OptimizerLRScheduler",
    "STEP_OUTPUT",
    "TRAIN_DATALOADERS",
]
