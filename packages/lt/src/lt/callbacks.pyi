# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_averaging.schedule_free import ScheduleFree as ScheduleFree
from lt_averaging.stochastic_weight_avg import StochasticWeightAveraging as StochasticWeightAveraging
from lt_averaging.weight_averaging import EMAWeightAveraging as EMAWeightAveraging
from lt_averaging.weight_averaging import WeightAveraging as WeightAveraging
from lt_callbacks.checkpoint.base import Checkpoint as Checkpoint
from lt_callbacks.checkpoint.model_checkpoint import ModelCheckpoint as ModelCheckpoint
from lt_callbacks.checkpoint.on_exception import OnExceptionCheckpoint as OnExceptionCheckpoint
from lt_callbacks.lambda_function import LambdaCallback as LambdaCallback
from lt_callbacks.monitors.learning_rate import LearningRateMonitor as LearningRateMonitor
from lt_callbacks.prediction_writer import BasePredictionWriter as BasePredictionWriter
from lt_callbacks.progress.progress_bar import ProgressBar as ProgressBar
from lt_callbacks.progress.progress_bar import ProgressBar as ProgressBarBase
from lt_callbacks.progress.rich_progress import RichProgressBar as RichProgressBar
from lt_callbacks.progress.rich_progress import RichProgressBarTheme as RichProgressBarTheme
from lt_callbacks.progress.tqdm_progress import TQDMProgressBar as TQDMProgressBar
from lt_callbacks.stopping.early_stopping import EarlyStopping as EarlyStopping
from lt_callbacks.stopping.timer import Timer as Timer
from lt_callbacks.summary.model_summary import ModelSummary as ModelSummary
from lt_callbacks.summary.rich_model_summary import RichModelSummary as RichModelSummary
from lt_core.callback import Callback as Callback
from lt_profilers.garbage_collection import GarbageCollection as GarbageCollection
from lt_profilers.monitors.device_stats import DeviceStatsMonitor as DeviceStatsMonitor
from lt_profilers.monitors.git_state import GitState as GitState
from lt_profilers.monitors.memory_snapshot import MemorySnapshot as MemorySnapshot
from lt_profilers.monitors.nan_guard import NaNGuard as NaNGuard
from lt_profilers.monitors.nan_guard import NonFiniteError as NonFiniteError
from lt_profilers.monitors.slow_rank import RankTimes as RankTimes
from lt_profilers.monitors.slow_rank import SlowRankMonitor as SlowRankMonitor
from lt_profilers.monitors.spike import SpikeDetection as SpikeDetection
from lt_profilers.monitors.throughput import ThroughputMonitor as ThroughputMonitor
from lt_profilers.serving import ServingCheck as ServingCheck
from lt_profilers.serving import ServingReport as ServingReport
from lt_profilers.serving import check_serving as check_serving
from lt_recipes.filtered import when as when
from lt_tuning.batch_size_finder import BatchSizeFinder as BatchSizeFinder
from lt_tuning.finetuning import BackboneFinetuning as BackboneFinetuning
from lt_tuning.finetuning import BaseFinetuning as BaseFinetuning
from lt_tuning.gradient_accumulation_scheduler import GradientAccumulationScheduler as GradientAccumulationScheduler
from lt_tuning.lr_finder import LearningRateFinder as LearningRateFinder
from lt_tuning.optuna_pruning import OptunaPruning as OptunaPruning
from lt_tuning.pruning import ModelPruning as ModelPruning
from lt_tuning.tuner import Tuner as Tuner

__all__ = [
    "BackboneFinetuning",
    "BaseFinetuning",
    "BasePredictionWriter",
    "BatchSizeFinder",
    "Callback",
    "Checkpoint",
    "DeviceStatsMonitor",
    "EMAWeightAveraging",
    "EarlyStopping",
    "GarbageCollection",
    "GitState",
    "GradientAccumulationScheduler",
    "LambdaCallback",
    "LearningRateFinder",
    "LearningRateMonitor",
    "MemorySnapshot",
    "ModelCheckpoint",
    "ModelPruning",
    "ModelSummary",
    "NaNGuard",
    "NonFiniteError",
    "OnExceptionCheckpoint",
    "OptunaPruning",
    "ProgressBar",
    "ProgressBarBase",
    "RankTimes",
    "RichModelSummary",
    "RichProgressBar",
    "RichProgressBarTheme",
    "ScheduleFree",
    "ServingCheck",
    "ServingReport",
    "SlowRankMonitor",
    "SpikeDetection",
    "StochasticWeightAveraging",
    "TQDMProgressBar",
    "ThroughputMonitor",
    "Timer",
    "Tuner",
    "WeightAveraging",
    "check_serving",
    "when",
]
