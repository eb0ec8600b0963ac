# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import EPOCH_OUTPUT as EPOCH_OUTPUT
from lt_cli.lightning_answers import LRSchedulerTypeTuple as LRSchedulerTypeTuple
from lt_cli.lightning_answers import _EVALUATE_OUTPUT as _EVALUATE_OUTPUT
from lt_cli.lightning_answers import _METRIC as _METRIC
from lt_cli.lightning_answers import _PATH as _PATH
from lt_cli.lightning_answers import _PREDICT_OUTPUT as _PREDICT_OUTPUT
from lt_core.types import EVAL_DATALOADERS as EVAL_DATALOADERS
from lt_core.types import LRSchedulerConfigType as LRSchedulerConfigType
from lt_core.types import LRSchedulerPLType as LRSchedulerPLType
from lt_core.types import LRSchedulerTypeUnion as LRSchedulerTypeUnion
from lt_core.types import OptimizerConfig as OptimizerConfig
from lt_core.types import OptimizerLRScheduler as OptimizerLRScheduler
from lt_core.types import OptimizerLRSchedulerConfig as OptimizerLRSchedulerConfig
from lt_core.types import STEP_OUTPUT as STEP_OUTPUT
from lt_core.types import TRAIN_DATALOADERS as TRAIN_DATALOADERS
from lt_loops.scheduler_config import SchedulerConfig as LRSchedulerConfig

__all__ = [
    "EPOCH_OUTPUT",
    "EVAL_DATALOADERS",
    "LRSchedulerConfig",
    "LRSchedulerConfigType",
    "LRSchedulerPLType",
    "LRSchedulerTypeTuple",
    "LRSchedulerTypeUnion",
    "OptimizerConfig",
    "OptimizerLRScheduler",
    "OptimizerLRSchedulerConfig",
    "STEP_OUTPUT",
    "TRAIN_DATALOADERS",
    "_EVALUATE_OUTPUT",
    "_METRIC",
    "_PATH",
    "_PREDICT_OUTPUT",
]
