"""Callbacks."""

from lt.lazy import lazy

NAMES = {
    "BackboneFinetuning": "lt_callbacks:BackboneFinetuning",
    "BaseFinetuning": "lt_callbacks:BaseFinetuning",
    "BasePredictionWriter": "lt_callbacks:BasePredictionWriter",
    "BatchSizeFinder": "lt_callbacks:BatchSizeFinder",
    "Callback": "lt_core.callback:Callback",
    "Checkpoint": "lt_callbacks:Checkpoint",
    "DeviceStatsMonitor": "lt_callbacks:DeviceStatsMonitor",
    "EMAWeightAveraging": "lt_callbacks:EMAWeightAveraging",
    "EarlyStopping": "lt_callbacks:EarlyStopping",
    "GradientAccumulationScheduler": "lt_callbacks:GradientAccumulationScheduler",
    "LambdaCallback": "lt_callbacks:LambdaCallback",
    "LearningRateFinder": "lt_callbacks:LearningRateFinder",
    "LearningRateMonitor": "lt_callbacks:LearningRateMonitor",
    "MemorySnapshot": "lt_callbacks:MemorySnapshot",
    "ModelCheckpoint": "lt_callbacks:ModelCheckpoint",
    "ModelPruning": "lt_callbacks:ModelPruning",
    "ModelSummary": "lt_callbacks:ModelSummary",
    "NaNGuard": "lt_callbacks:NaNGuard",
    "NonFiniteError": "lt_callbacks:NonFiniteError",
    "OnExceptionCheckpoint": "lt_callbacks:OnExceptionCheckpoint",
    "ProgressBar": "lt_callbacks:ProgressBar",
    "ProgressBarBase": "lt_callbacks.progress.progress_bar:ProgressBar",
    "RichModelSummary": "lt_callbacks:RichModelSummary",
    "RichProgressBar": "lt_callbacks:RichProgressBar",
    "SpikeDetection": "lt_callbacks:SpikeDetection",
    "StochasticWeightAveraging": "lt_callbacks:StochasticWeightAveraging",
    "TQDMProgressBar": "lt_callbacks:TQDMProgressBar",
    "ThroughputMonitor": "lt_callbacks:ThroughputMonitor",
    "Timer": "lt_callbacks:Timer",
    "Tuner": "lt_callbacks:Tuner",
    "WeightAveraging": "lt_callbacks:WeightAveraging",
}
"""Each name, and where it comes from."""

MODULES = (
    "base",
    "batch_size_finder",
    "callback",
    "checkpoint",
    "device_stats_monitor",
    "early_stopping",
    "finetuning",
    "gradient_accumulation_scheduler",
    "lambda_function",
    "lr_finder",
    "lr_monitor",
    "model_checkpoint",
    "model_summary",
    "on_exception_checkpoint",
    "prediction_writer",
    "progress",
    "pruning",
    "rich_model_summary",
    "spike",
    "stochastic_weight_avg",
    "throughput_monitor",
    "timer",
    "weight_averaging",
)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
