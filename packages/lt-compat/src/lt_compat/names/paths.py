"""Module paths of Lightning below ``lt``: ``from lt.callbacks.early_stopping import EarlyStopping`` and the like.

lt itself has one module for each kind of thing (``lt.callbacks``). The paths below those, and the modules that only
old code knows (``lt.core``, ``lt.profiler``), are here; a module is made when somebody imports it. A name that lt has
comes from lt's own table, so that where it is defined is written once. lt needs this package and not the other way
round: without lt there is no ``lt.callbacks`` to have paths below, and its names are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec

__all__ = ["NAMES"]

_MOVED: dict[str, dict[str, str]] = {
    "accelerators.accelerator": {"accelerators": "Accelerator"},
    "accelerators.cpu": {"accelerators": "CPUAccelerator"},
    "accelerators.cuda": {"accelerators": "CUDAAccelerator"},
    "accelerators.gpu": {"accelerators": "GPUAccelerator"},
    "accelerators.mps": {"accelerators": "MPSAccelerator"},
    "accelerators.tpu": {"accelerators": "TPUAccelerator"},
    "accelerators.xla": {"accelerators": "XLAAccelerator"},
    "callbacks.base": {"callbacks": "Callback"},
    "callbacks.batch_size_finder": {"callbacks": "BatchSizeFinder"},
    "callbacks.callback": {"callbacks": "Callback"},
    "callbacks.checkpoint": {"callbacks": "Checkpoint"},
    "callbacks.device_stats_monitor": {"callbacks": "DeviceStatsMonitor"},
    "callbacks.early_stopping": {"callbacks": "EarlyStopping"},
    "callbacks.finetuning": {"callbacks": "BackboneFinetuning BaseFinetuning"},
    "callbacks.gradient_accumulation_scheduler": {"callbacks": "GradientAccumulationScheduler"},
    "callbacks.lambda_function": {"callbacks": "LambdaCallback"},
    "callbacks.lr_finder": {"callbacks": "LearningRateFinder"},
    "callbacks.lr_monitor": {"callbacks": "LearningRateMonitor"},
    "callbacks.model_checkpoint": {"callbacks": "ModelCheckpoint"},
    "callbacks.model_summary": {"callbacks": "ModelSummary"},
    "callbacks.on_exception_checkpoint": {"callbacks": "OnExceptionCheckpoint"},
    "callbacks.prediction_writer": {"callbacks": "BasePredictionWriter"},
    "callbacks.progress": {"callbacks": "ProgressBar ProgressBarBase RichProgressBar TQDMProgressBar"},
    "callbacks.progress.base": {"callbacks": "ProgressBarBase"},
    "callbacks.progress.progress_bar": {"callbacks": "ProgressBar"},
    "callbacks.progress.rich_progress": {"callbacks": "RichProgressBar RichProgressBarTheme"},
    "callbacks.progress.tqdm_progress": {"callbacks": "TQDMProgressBar"},
    "callbacks.pruning": {"callbacks": "ModelPruning"},
    "callbacks.rich_model_summary": {"callbacks": "RichModelSummary"},
    "callbacks.spike": {"callbacks": "SpikeDetection"},
    "callbacks.stochastic_weight_avg": {"callbacks": "StochasticWeightAveraging"},
    "callbacks.throughput_monitor": {"callbacks": "ThroughputMonitor"},
    "callbacks.timer": {"callbacks": "Timer"},
    "callbacks.weight_averaging": {"callbacks": "EMAWeightAveraging WeightAveraging"},
    "core": {"": "LightningDataModule LightningModule"},
    "core.datamodule": {"": "LightningDataModule"},
    "core.lightning": {"": "LightningModule"},
    "core.memory": {"utilities": "ModelSummary"},
    "core.module": {"": "LightningModule"},
    "loggers.base": {"loggers": "LightningLoggerBase"},
    "loggers.comet": {"loggers": "CometLogger"},
    "loggers.csv_logs": {"loggers": "CSVLogger"},
    "loggers.logger": {"loggers": "Logger"},
    "loggers.mlflow": {"loggers": "MLFlowLogger"},
    "loggers.tensorboard": {"loggers": "TensorBoardLogger"},
    "loggers.wandb": {"loggers": "WandbLogger"},
    "plugins.environments": {"plugins": "ClusterEnvironment"},
    "plugins.io": {"plugins": "AsyncCheckpointIO CheckpointIO TorchCheckpointIO"},
    "plugins.precision": {
        "plugins": "BitsandbytesPrecision DoublePrecision HalfPrecision Mixed MixedPrecision MixedPrecisionPlugin "
        "Precision PrecisionPlugin ScaledMixed TransformerEnginePrecision TruePrecision"
    },
    "plugins.training_type": {"plugins": "DDPPlugin DDPSpawnPlugin"},
    "profiler": {
        "profilers": "AdvancedProfiler PassThroughProfiler Profiler PyTorchProfiler SimpleProfiler XLAProfiler"
    },
    "profilers.advanced": {"profilers": "AdvancedProfiler"},
    "profilers.profiler": {"profilers": "Profiler"},
    "profilers.pytorch": {"profilers": "PyTorchProfiler"},
    "profilers.simple": {"profilers": "SimpleProfiler"},
    "profilers.xla": {"profilers": "XLAProfiler"},
    "strategies.ddp": {"strategies": "DDPStrategy"},
    "strategies.fsdp": {"strategies": "FSDPStrategy"},
    "strategies.model_parallel": {"strategies": "ModelParallelStrategy"},
    "strategies.parallel": {"strategies": "ParallelStrategy"},
    "strategies.single_device": {"strategies": "SingleDeviceStrategy"},
    "strategies.strategy": {"strategies": "Strategy"},
    "strategies.xla": {"strategies": "XLAStrategy"},
    "trainer": {"": "Trainer seed_everything"},
    "trainer.supporters": {"data": "CombinedLoader"},
    "trainer.trainer": {"": "Trainer"},
    "tuner.tuning": {"tuner": "Tuner"},
    "utilities.apply_func": {"utilities": "apply_to_collection move_data_to_device"},
    "utilities.cli": {"cli": "LightningArgumentParser LightningCLI SaveConfigCallback"},
    "utilities.combined_loader": {"utilities": "CombinedLoader"},
    "utilities.data": {"utilities": "suggested_max_num_workers"},
    "utilities.distributed": {
        "utilities": "rank_zero_debug rank_zero_deprecation rank_zero_info rank_zero_only rank_zero_warn"
    },
    "utilities.enums": {"utilities": "GradClipAlgorithmType LightningEnum"},
    "utilities.exceptions": {
        "errors": "CheckpointError ConfigError ConfigTypeError DataError HookError "
        "LogError LtError PluginError RankError",
        "utilities": "MisconfigurationException",
    },
    "utilities.grads": {"utilities": "grad_norm"},
    "utilities.model_helpers": {"utilities": "is_overridden"},
    "utilities.model_summary": {"utilities": "ModelSummary"},
    "utilities.parsing": {"utilities": "AttributeDict is_picklable"},
    "utilities.rank_zero": {
        "utilities": "rank_zero_debug rank_zero_deprecation rank_zero_info rank_zero_only rank_zero_warn"
    },
    "utilities.seed": {"utilities": "isolate_rng seed_everything"},
    "utilities.warnings": {"errors": "LtDeprecationWarning LtWarning silence"},
}
"""By module: names of lt, by the module below ``lt`` that has them."""

_OWN: dict[str, dict[str, str]] = {
    "callbacks.finetuning": {
        "multiplicative": "lt_tuning.finetuning:multiplicative",
    },
    "callbacks.prediction_writer": {
        "WriteInterval": "lt_callbacks.prediction_writer:WriteInterval",
    },
    "callbacks.progress.base": {
        "ProgressBar": "lt_callbacks.progress.progress_bar:ProgressBar",
    },
    "callbacks.progress.tqdm_progress": {
        "Tqdm": "lt_callbacks.progress.tqdm_progress:Tqdm",
        "convert_inf": "lt_callbacks.progress.tqdm_progress:convert_inf",
    },
    "core": {
        "HyperparametersMixin": "lt_core.hparams:HyperparametersMixin",
        "LightningOptimizer": "lt_core.optimizer:LightningOptimizer",
    },
    "core.decorators": {
        "auto_move_data": "lt_compat.lightning.utilities:auto_move_data",
    },
    "core.hooks": {
        "DataHooks": "lt_core.data:DataSource",
    },
    "core.mixins": {
        "HyperparametersMixin": "lt_core.hparams:HyperparametersMixin",
    },
    "core.optimizer": {
        "LightningOptimizer": "lt_core.optimizer:LightningOptimizer",
    },
    "loggers.csv_logs": {
        "ExperimentWriter": "lt_loggers.csv_file:ExperimentWriter",
    },
    "core.saving": {
        "_load_from_checkpoint": "lt_core.loading.from_checkpoint:load_from_checkpoint",
        "load_hparams_from_tags_csv": "lt_compat.lightning.utilities:load_hparams_from_tags_csv",
        "load_hparams_from_yaml": "lt_compat.lightning.utilities:load_hparams_from_yaml",
        "save_hparams_to_tags_csv": "lt_compat.lightning.utilities:save_hparams_to_tags_csv",
        "save_hparams_to_yaml": "lt_compat.lightning.utilities:save_hparams_to_yaml",
    },
    "demos": {
        "BoringDataModule": "lt_compat.lightning.demos:BoringDataModule",
        "BoringModel": "lt_compat.lightning.demos:BoringModel",
        "RandomDataset": "lt_compat.lightning.demos:RandomDataset",
    },
    "demos.boring_classes": {
        "BoringDataModule": "lt_compat.lightning.demos:BoringDataModule",
        "BoringModel": "lt_compat.lightning.demos:BoringModel",
        "DemoModel": "lt_compat.lightning.demos:DemoModel",
        "RandomDataset": "lt_compat.lightning.demos:RandomDataset",
        "RandomDictDataset": "lt_compat.lightning.demos:RandomDictDataset",
    },
    "loggers.base": {
        "DummyExperiment": "lt_core.logger:DummyExperiment",
        "DummyLogger": "lt_core.logger:DummyLogger",
        "rank_zero_experiment": "lt_compat.lightning.rank_zero:rank_zero_experiment",
    },
    "loggers.logger": {
        "DummyExperiment": "lt_core.logger:DummyExperiment",
        "DummyLogger": "lt_core.logger:DummyLogger",
        "rank_zero_experiment": "lt_compat.lightning.rank_zero:rank_zero_experiment",
    },
    "plugins.environments": {
        "Environment": "lt_core.environment:Environment",
        "KubeflowEnvironment": "lt_strategies.environments:Kubernetes",
        "LSFEnvironment": "lt_strategies.environments:Lsf",
        "LightningEnvironment": "lt_strategies.environments:LaunchedEnvironment",
        "MPIEnvironment": "lt_strategies.environments:Mpi",
        "SLURMEnvironment": "lt_strategies.environments:Slurm",
        "TorchElasticEnvironment": "lt_strategies.environments:Torchrun",
    },
    "profiler": {
        "AbstractProfiler": "lt_core.profiler:Profiler",
        "BaseProfiler": "lt_core.profiler:Profiler",
    },
    "trainer.states": {
        "RunningStage": "lt_compat.lightning.trainer_state:RunningStage",
        "TrainerFn": "lt_compat.lightning.trainer_state:TrainerFn",
        "TrainerState": "lt_compat.lightning.trainer_state:TrainerState",
        "TrainerStatus": "lt_compat.lightning.trainer_state:TrainerStatus",
    },
    "utilities.cloud_io": {
        "get_filesystem": "lt_compat.lightning.utilities:get_filesystem",
        "load": "lt_compat.lightning.utilities:load",
    },
    "utilities.data": {
        "extract_batch_size": "lt_compat.lightning.utilities:extract_batch_size",
        "has_iterable_dataset": "lt_compat.lightning.utilities:has_iterable_dataset",
        "has_len": "lt_compat.lightning.utilities:has_len",
        "has_len_all_ranks": "lt_compat.lightning.utilities:has_len_all_ranks",
        "sized_len": "lt_compat.lightning.utilities:sized_len",
    },
    "utilities.exceptions": {
        "SIGTERMException": "lt_compat.lightning.utilities:SIGTERMException",
    },
    "utilities.imports": {
        "_BITSANDBYTES_AVAILABLE": "lt_compat.lightning.utilities:_BITSANDBYTES_AVAILABLE",
        "_JSONARGPARSE_AVAILABLE": "lt_compat.lightning.utilities:_JSONARGPARSE_AVAILABLE",
        "_MATPLOTLIB_AVAILABLE": "lt_compat.lightning.utilities:_MATPLOTLIB_AVAILABLE",
        "_NUMPY_AVAILABLE": "lt_compat.lightning.utilities:_NUMPY_AVAILABLE",
        "_OMEGACONF_AVAILABLE": "lt_compat.lightning.utilities:_OMEGACONF_AVAILABLE",
        "_RICH_AVAILABLE": "lt_compat.lightning.utilities:_RICH_AVAILABLE",
        "_TENSORBOARDX_AVAILABLE": "lt_compat.lightning.utilities:_TENSORBOARDX_AVAILABLE",
        "_TENSORBOARD_AVAILABLE": "lt_compat.lightning.utilities:_TENSORBOARD_AVAILABLE",
        "_TORCHMETRICS_AVAILABLE": "lt_compat.lightning.utilities:_TORCHMETRICS_AVAILABLE",
        "_TORCHVISION_AVAILABLE": "lt_compat.lightning.utilities:_TORCHVISION_AVAILABLE",
        "_TORCH_GREATER_EQUAL_2_0": "lt_compat.lightning.utilities:_TORCH_GREATER_EQUAL_2_0",
        "_TORCH_GREATER_EQUAL_2_1": "lt_compat.lightning.utilities:_TORCH_GREATER_EQUAL_2_1",
        "_TORCH_GREATER_EQUAL_2_2": "lt_compat.lightning.utilities:_TORCH_GREATER_EQUAL_2_2",
        "_TORCH_GREATER_EQUAL_2_3": "lt_compat.lightning.utilities:_TORCH_GREATER_EQUAL_2_3",
        "_TORCH_GREATER_EQUAL_2_4": "lt_compat.lightning.utilities:_TORCH_GREATER_EQUAL_2_4",
        "_TORCH_GREATER_EQUAL_2_5": "lt_compat.lightning.utilities:_TORCH_GREATER_EQUAL_2_5",
        "_TORCH_GREATER_EQUAL_2_6": "lt_compat.lightning.utilities:_TORCH_GREATER_EQUAL_2_6",
        "_TORCH_GREATER_EQUAL_2_7": "lt_compat.lightning.utilities:_TORCH_GREATER_EQUAL_2_7",
        "_TORCH_GREATER_EQUAL_2_8": "lt_compat.lightning.utilities:_TORCH_GREATER_EQUAL_2_8",
        "_TORCH_GREATER_EQUAL_2_9": "lt_compat.lightning.utilities:_TORCH_GREATER_EQUAL_2_9",
        "_TQDM_AVAILABLE": "lt_compat.lightning.utilities:_TQDM_AVAILABLE",
        "_WANDB_AVAILABLE": "lt_compat.lightning.utilities:_WANDB_AVAILABLE",
    },
    "utilities.memory": {
        "garbage_collection_cuda": "lt_compat.lightning.utilities:garbage_collection_cuda",
        "is_cuda_out_of_memory": "lt_compat.lightning.utilities:is_cuda_out_of_memory",
        "is_cudnn_snafu": "lt_compat.lightning.utilities:is_cudnn_snafu",
        "is_oom_error": "lt_compat.lightning.utilities:is_oom_error",
        "is_out_of_cpu_memory": "lt_compat.lightning.utilities:is_out_of_cpu_memory",
        "recursive_detach": "lt_compat.lightning.utilities:recursive_detach",
    },
    "utilities.model_helpers": {
        "get_torchvision_model": "lt_compat.lightning.utilities:get_torchvision_model",
    },
    "utilities.model_summary": {
        "LayerSummary": "lt_callbacks.summary.module_table:LayerRow",
        "get_human_readable_count": "lt_callbacks.summary.module_table:human_count",
        "summarize": "lt_callbacks.summary.module_table:ModuleTable",
    },
    "utilities.parsing": {
        "get_init_args": "lt_compat.lightning.utilities:get_init_args",
        "lightning_getattr": "lt_compat.lightning.utilities:lightning_getattr",
        "lightning_hasattr": "lt_compat.lightning.utilities:lightning_hasattr",
        "lightning_setattr": "lt_compat.lightning.utilities:lightning_setattr",
    },
    "utilities.rank_zero": {
        "LightningDeprecationWarning": "lt_core.errors:LtDeprecationWarning",
        "WarningCache": "lt_compat.lightning.utilities:WarningCache",
        "rank_prefixed_message": "lt_compat.lightning.utilities:rank_prefixed_message",
    },
    "utilities.seed": {
        "pl_worker_init_function": "lt_core.seed:pl_worker_init_function",
        "reset_seed": "lt_core.seed:reset_seed",
    },
    "utilities.signature_utils": {
        "is_param_in_hook_signature": "lt_compat.lightning.utilities:is_param_in_hook_signature",
    },
    "utilities.types": {
        "EPOCH_OUTPUT": "lt_compat.lightning.utilities:EPOCH_OUTPUT",
        "EVAL_DATALOADERS": "lt_compat.lightning.types:EVAL_DATALOADERS",
        "LRSchedulerConfig": "lt_loops.setup.scheduler_config:SchedulerConfig",
        "LRSchedulerConfigType": "lt_compat.lightning.types:LRSchedulerConfigType",
        "LRSchedulerPLType": "lt_compat.lightning.types:LRSchedulerPLType",
        "LRSchedulerTypeTuple": "lt_compat.lightning.utilities:LRSchedulerTypeTuple",
        "LRSchedulerTypeUnion": "lt_compat.lightning.types:LRSchedulerTypeUnion",
        "OptimizerConfig": "lt_compat.lightning.types:OptimizerConfig",
        "OptimizerLRScheduler": "lt_compat.lightning.types:OptimizerLRScheduler",
        "OptimizerLRSchedulerConfig": "lt_compat.lightning.types:OptimizerLRSchedulerConfig",
        "STEP_OUTPUT": "lt_compat.lightning.types:STEP_OUTPUT",
        "TRAIN_DATALOADERS": "lt_compat.lightning.types:TRAIN_DATALOADERS",
        "_EVALUATE_OUTPUT": "lt_compat.lightning.utilities:_EVALUATE_OUTPUT",
        "_METRIC": "lt_compat.lightning.utilities:_METRIC",
        "_PATH": "lt_compat.lightning.utilities:_PATH",
        "_PREDICT_OUTPUT": "lt_compat.lightning.utilities:_PREDICT_OUTPUT",
    },
    "utilities.warnings": {
        "PossibleUserWarning": "lt_core.errors:LtWarning",
    },
}
"""By module: names that lt has not, with where each comes from."""


def _names() -> dict[str, dict[str, str]]:
    """Return all names, in the form of ``lt.names.NAMES``."""
    lt: Mapping[str, Mapping[str, str]] = import_module("lt.names").NAMES if find_spec("lt") is not None else {}
    found: dict[str, dict[str, str]] = {}
    for module in sorted(_MOVED.keys() | _OWN):
        names = {name: lt[home][name] for home, line in _MOVED.get(module, {}).items() for name in line.split() if lt}
        found[module] = dict(sorted({**names, **_OWN.get(module, {})}.items()))
    return found


NAMES = _names()
"""As ``lt.names.NAMES``: by module below ``lt``, each name with where it comes from."""
