"""Names for what steps and hooks take and return, for annotations."""

from lt.lazy import lazy

NAMES = {
    "EPOCH_OUTPUT": "lt_cli.lightning_answers:EPOCH_OUTPUT",
    "EVAL_DATALOADERS": "lt_core.types:EVAL_DATALOADERS",
    "LRSchedulerConfig": "lt_loops.scheduler_config:SchedulerConfig",
    "LRSchedulerConfigType": "lt_core.types:LRSchedulerConfigType",
    "LRSchedulerPLType": "lt_core.types:LRSchedulerPLType",
    "LRSchedulerTypeTuple": "lt_cli.lightning_answers:LRSchedulerTypeTuple",
    "LRSchedulerTypeUnion": "lt_core.types:LRSchedulerTypeUnion",
    "OptimizerConfig": "lt_core.types:OptimizerConfig",
    "OptimizerLRScheduler": "lt_core.types:OptimizerLRScheduler",
    "OptimizerLRSchedulerConfig": "lt_core.types:OptimizerLRSchedulerConfig",
    "STEP_OUTPUT": "lt_core.types:STEP_OUTPUT",
    "TRAIN_DATALOADERS": "lt_core.types:TRAIN_DATALOADERS",
    "_EVALUATE_OUTPUT": "lt_cli.lightning_answers:_EVALUATE_OUTPUT",
    "_METRIC": "lt_cli.lightning_answers:_METRIC",
    "_PATH": "lt_cli.lightning_answers:_PATH",
    "_PREDICT_OUTPUT": "lt_cli.lightning_answers:_PREDICT_OUTPUT",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
