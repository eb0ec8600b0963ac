# Written by tools/stubs.py from the table in __init__.py.

from lt_tuning.batch_size_finder import BatchSizeFinder as BatchSizeFinder
from lt_tuning.finetuning import BackboneFinetuning as BackboneFinetuning
from lt_tuning.finetuning import BaseFinetuning as BaseFinetuning
from lt_tuning.finetuning import multiplicative as multiplicative
from lt_tuning.gradient_accumulation_scheduler import GradientAccumulationScheduler as GradientAccumulationScheduler
from lt_tuning.lr_finder import LearningRateCurve as LearningRateCurve
from lt_tuning.lr_finder import LearningRateFinder as LearningRateFinder
from lt_tuning.optuna_pruning import OptunaPruning as OptunaPruning
from lt_tuning.pruning import ModelPruning as ModelPruning
from lt_tuning.tuner import Tuner as Tuner

__version__: str
