"""Module paths of Lightning below ``lt``: ``from lt.callbacks.early_stopping import EarlyStopping`` and the like.

lt itself has one module for each kind of thing (``lt.callbacks``). The paths below those, and the modules that only
old code knows (``lt.core``, ``lt.profiler``), are here; a module is made when somebody imports it.
"""

from __future__ import annotations

__all__ = ["NAMES"]

NAMES: dict[str, dict[str, str]] = {
    "accelerators.accelerator": {
        "Accelerator": "lt_core.accelerator:Accelerator",
    },
    "accelerators.cpu": {
        "CPUAccelerator": "lt_core.accelerator:Cpu",
    },
    "accelerators.cuda": {
        "CUDAAccelerator": "lt_strategies.cuda:Cuda",
    },
    "accelerators.gpu": {
        "GPUAccelerator": "lt_strategies.cuda:Cuda",
    },
    "accelerators.mps": {
        "MPSAccelerator": "lt_strategies.mps:Mps",
    },
    "accelerators.tpu": {
        "TPUAccelerator": "lt_strategies.xla_device:Xla",
    },
    "accelerators.xla": {
        "XLAAccelerator": "lt_strategies.xla_device:Xla",
    },
    "callbacks.base": {
        "Callback": "lt_core.callback:Callback",
    },
    "callbacks.batch_size_finder": {
        "BatchSizeFinder": "lt_callbacks:BatchSizeFinder",
    },
    "callbacks.callback": {
        "Callback": "lt_core.callback:Callback",
    },
    "callbacks.checkpoint": {
        "Checkpoint": "lt_callbacks:Checkpoint",
    },
    "callbacks.device_stats_monitor": {
        "DeviceStatsMonitor": "lt_callbacks:DeviceStatsMonitor",
    },
    "callbacks.early_stopping": {
        "EarlyStopping": "lt_callbacks:EarlyStopping",
    },
    "callbacks.finetuning": {
        "BackboneFinetuning": "lt_callbacks:BackboneFinetuning",
        "BaseFinetuning": "lt_callbacks:BaseFinetuning",
        "multiplicative": "lt_callbacks.finetuning:multiplicative",
    },
    "callbacks.gradient_accumulation_scheduler": {
        "GradientAccumulationScheduler": "lt_callbacks:GradientAccumulationScheduler",
    },
    "callbacks.lambda_function": {
        "LambdaCallback": "lt_callbacks:LambdaCallback",
    },
    "callbacks.lr_finder": {
        "LearningRateFinder": "lt_callbacks:LearningRateFinder",
    },
    "callbacks.lr_monitor": {
        "LearningRateMonitor": "lt_callbacks:LearningRateMonitor",
    },
    "callbacks.model_checkpoint": {
        "ModelCheckpoint": "lt_callbacks:ModelCheckpoint",
    },
    "callbacks.model_summary": {
        "ModelSummary": "lt_callbacks:ModelSummary",
    },
    "callbacks.on_exception_checkpoint": {
        "OnExceptionCheckpoint": "lt_callbacks:OnExceptionCheckpoint",
    },
    "callbacks.prediction_writer": {
        "BasePredictionWriter": "lt_callbacks:BasePredictionWriter",
        "WriteInterval": "lt_callbacks.prediction_writer:WriteInterval",
    },
    "callbacks.progress": {
        "ProgressBar": "lt_callbacks:ProgressBar",
        "ProgressBarBase": "lt_callbacks.progress.progress_bar:ProgressBar",
        "RichProgressBar": "lt_callbacks:RichProgressBar",
        "TQDMProgressBar": "lt_callbacks:TQDMProgressBar",
    },
    "callbacks.progress.base": {
        "ProgressBar": "lt_callbacks.progress.progress_bar:ProgressBar",
        "ProgressBarBase": "lt_callbacks.progress.progress_bar:ProgressBar",
    },
    "callbacks.progress.progress_bar": {
        "ProgressBar": "lt_callbacks:ProgressBar",
    },
    "callbacks.progress.rich_progress": {
        "RichProgressBar": "lt_callbacks:RichProgressBar",
        "RichProgressBarTheme": "lt_callbacks:RichProgressBarTheme",
    },
    "callbacks.progress.tqdm_progress": {
        "TQDMProgressBar": "lt_callbacks:TQDMProgressBar",
        "Tqdm": "lt_callbacks.progress.tqdm_progress:Tqdm",
        "convert_inf": "lt_callbacks.progress.tqdm_progress:convert_inf",
    },
    "callbacks.pruning": {
        "ModelPruning": "lt_callbacks:ModelPruning",
    },
    "callbacks.rich_model_summary": {
        "RichModelSummary": "lt_callbacks:RichModelSummary",
    },
    "callbacks.spike": {
        "SpikeDetection": "lt_callbacks:SpikeDetection",
    },
    "callbacks.stochastic_weight_avg": {
        "StochasticWeightAveraging": "lt_callbacks:StochasticWeightAveraging",
    },
    "callbacks.throughput_monitor": {
        "ThroughputMonitor": "lt_callbacks:ThroughputMonitor",
    },
    "callbacks.timer": {
        "Timer": "lt_callbacks:Timer",
    },
    "callbacks.weight_averaging": {
        "EMAWeightAveraging": "lt_callbacks:EMAWeightAveraging",
        "WeightAveraging": "lt_callbacks:WeightAveraging",
    },
    "core": {
        "HyperparametersMixin": "lt_core.hparams:HyperparametersMixin",
        "LightningDataModule": "lt_data:LightningDataModule",
        "LightningModule": "lt_core.module:LightningModule",
        "LightningOptimizer": "lt_core.optimizer:LightningOptimizer",
    },
    "core.datamodule": {
        "LightningDataModule": "lt_data:LightningDataModule",
    },
    "core.decorators": {
        "auto_move_data": "lt_compat.answers:auto_move_data",
    },
    "core.hooks": {
        "DataHooks": "lt_core.data:DataSource",
    },
    "core.lightning": {
        "LightningModule": "lt_core.module:LightningModule",
    },
    "core.memory": {
        "ModelSummary": "lt_callbacks.summary.module_table:ModuleTable",
    },
    "core.mixins": {
        "HyperparametersMixin": "lt_core.hparams:HyperparametersMixin",
    },
    "core.module": {
        "LightningModule": "lt_core.module:LightningModule",
    },
    "core.optimizer": {
        "LightningOptimizer": "lt_core.optimizer:LightningOptimizer",
    },
    "core.saving": {
        "load_hparams_from_tags_csv": "lt_core.hparams_file:read_hparams_file",
        "load_hparams_from_yaml": "lt_core.hparams_file:read_hparams_file",
        "save_hparams_to_yaml": "lt_compat.answers:save_hparams_to_yaml",
    },
    "demos": {
        "BoringDataModule": "lt_compat.demos:BoringDataModule",
        "BoringModel": "lt_compat.demos:BoringModel",
        "RandomDataset": "lt_compat.demos:RandomDataset",
    },
    "demos.boring_classes": {
        "BoringDataModule": "lt_compat.demos:BoringDataModule",
        "BoringModel": "lt_compat.demos:BoringModel",
        "DemoModel": "lt_compat.demos:DemoModel",
        "RandomDataset": "lt_compat.demos:RandomDataset",
        "RandomDictDataset": "lt_compat.demos:RandomDictDataset",
    },
    "loggers.base": {
        "DummyExperiment": "lt_core.logger:DummyExperiment",
        "DummyLogger": "lt_core.logger:DummyLogger",
        "LightningLoggerBase": "lt_core.logger:Logger",
        "rank_zero_experiment": "lt_core.logger:rank_zero_experiment",
    },
    "loggers.comet": {
        "CometLogger": "lt_loggers:CometLogger",
    },
    "loggers.csv_logs": {
        "CSVLogger": "lt_loggers:CSVLogger",
    },
    "loggers.logger": {
        "DummyExperiment": "lt_core.logger:DummyExperiment",
        "DummyLogger": "lt_core.logger:DummyLogger",
        "Logger": "lt_core.logger:Logger",
        "rank_zero_experiment": "lt_core.logger:rank_zero_experiment",
    },
    "loggers.mlflow": {
        "MLFlowLogger": "lt_loggers:MLFlowLogger",
    },
    "loggers.tensorboard": {
        "TensorBoardLogger": "lt_loggers:TensorBoardLogger",
    },
    "loggers.wandb": {
        "WandbLogger": "lt_loggers:WandbLogger",
    },
    "plugins.environments": {
        "ClusterEnvironment": "lt_core.environment:Environment",
        "Environment": "lt_core.environment:Environment",
        "KubeflowEnvironment": "lt_strategies.environments:Kubernetes",
        "LSFEnvironment": "lt_strategies.environments:Lsf",
        "LightningEnvironment": "lt_strategies.job:LaunchedEnvironment",
        "MPIEnvironment": "lt_strategies.environments:Mpi",
        "SLURMEnvironment": "lt_strategies.environments:Slurm",
        "TorchElasticEnvironment": "lt_strategies.environments:Torchrun",
    },
    "plugins.io": {
        "AsyncCheckpointIO": "lt_checkpoint:AsyncCheckpointIO",
        "CheckpointIO": "lt_core.checkpoint:CheckpointIO",
        "TorchCheckpointIO": "lt_checkpoint:TorchCheckpointIO",
    },
    "plugins.precision": {
        "BitsandbytesPrecision": "lt_strategies.bitsandbytes:Bitsandbytes",
        "DoublePrecision": "lt_strategies.precision:double",
        "HalfPrecision": "lt_strategies.precision:TruePrecision",
        "Mixed": "lt_strategies.precision:Mixed",
        "MixedPrecision": "lt_strategies.precision:Mixed",
        "MixedPrecisionPlugin": "lt_strategies.precision:Mixed",
        "Precision": "lt_core.precision:Precision",
        "PrecisionPlugin": "lt_core.precision:Precision",
        "ScaledMixed": "lt_strategies.precision:ScaledMixed",
        "TransformerEnginePrecision": "lt_strategies.transformer_engine:TransformerEngine",
        "TruePrecision": "lt_strategies.precision:TruePrecision",
    },
    "plugins.training_type": {
        "DDPPlugin": "lt_strategies.ddp:DDP",
        "DDPSpawnPlugin": "lt_strategies.ddp:ddp_spawn",
    },
    "profiler": {
        "AbstractProfiler": "lt_core.profiler:Profiler",
        "AdvancedProfiler": "lt_callbacks.profilers.advanced:AdvancedProfiler",
        "BaseProfiler": "lt_core.profiler:Profiler",
        "PassThroughProfiler": "lt_core.profiler:Profiler",
        "Profiler": "lt_core.profiler:Profiler",
        "PyTorchProfiler": "lt_callbacks.profilers.pytorch:PyTorchProfiler",
        "SimpleProfiler": "lt_callbacks.profilers.simple:SimpleProfiler",
        "XLAProfiler": "lt_callbacks.profilers.xla:XLAProfiler",
    },
    "profilers.advanced": {
        "AdvancedProfiler": "lt_callbacks.profilers.advanced:AdvancedProfiler",
    },
    "profilers.profiler": {
        "Profiler": "lt_core.profiler:Profiler",
    },
    "profilers.pytorch": {
        "PyTorchProfiler": "lt_callbacks.profilers.pytorch:PyTorchProfiler",
    },
    "profilers.simple": {
        "SimpleProfiler": "lt_callbacks.profilers.simple:SimpleProfiler",
    },
    "profilers.xla": {
        "XLAProfiler": "lt_callbacks.profilers.xla:XLAProfiler",
    },
    "strategies.ddp": {
        "DDPStrategy": "lt_strategies.ddp:DDP",
    },
    "strategies.fsdp": {
        "FSDPStrategy": "lt_strategies.fsdp:FSDP",
    },
    "strategies.model_parallel": {
        "ModelParallelStrategy": "lt_strategies.fsdp:ModelParallel",
    },
    "strategies.parallel": {
        "ParallelStrategy": "lt_strategies.distributed:Distributed",
    },
    "strategies.single_device": {
        "SingleDeviceStrategy": "lt_core.strategy:SingleDevice",
    },
    "strategies.strategy": {
        "Strategy": "lt_core.strategy:Strategy",
    },
    "strategies.xla": {
        "XLAStrategy": "lt_strategies.xla:XLA",
    },
    "trainer": {
        "Trainer": "lt_loops:Trainer",
        "seed_everything": "lt_core.seed:seed_everything",
    },
    "trainer.states": {
        "RunningStage": "lt_core.states:RunningStage",
        "TrainerFn": "lt_core.states:TrainerFn",
        "TrainerState": "lt_core.states:TrainerState",
        "TrainerStatus": "lt_core.states:TrainerStatus",
    },
    "trainer.supporters": {
        "CombinedLoader": "lt_data:CombinedLoader",
    },
    "trainer.trainer": {
        "Trainer": "lt_loops:Trainer",
    },
    "tuner.tuning": {
        "Tuner": "lt_callbacks:Tuner",
    },
    "utilities.apply_func": {
        "apply_to_collection": "lt_compat.answers:apply_to_collection",
        "move_data_to_device": "lt_core.batch:move_to_device",
    },
    "utilities.cli": {
        "LightningArgumentParser": "lt_cli:LightningArgumentParser",
        "LightningCLI": "lt_cli:LightningCLI",
        "SaveConfigCallback": "lt_cli:SaveConfigCallback",
    },
    "utilities.cloud_io": {
        "get_filesystem": "lt_compat.answers:get_filesystem",
        "load": "lt_compat.answers:load",
    },
    "utilities.combined_loader": {
        "CombinedLoader": "lt_data:CombinedLoader",
    },
    "utilities.data": {
        "extract_batch_size": "lt_compat.answers:extract_batch_size",
        "has_iterable_dataset": "lt_compat.answers:has_iterable_dataset",
        "has_len": "lt_compat.answers:has_len",
        "has_len_all_ranks": "lt_compat.answers:has_len_all_ranks",
        "sized_len": "lt_compat.answers:sized_len",
        "suggested_max_num_workers": "lt_compat.answers:suggested_max_num_workers",
    },
    "utilities.distributed": {
        "rank_zero_debug": "lt_core.rank:rank_zero_debug",
        "rank_zero_deprecation": "lt_core.rank:rank_zero_deprecation",
        "rank_zero_info": "lt_core.rank:rank_zero_info",
        "rank_zero_only": "lt_core.rank:rank_zero_only",
        "rank_zero_warn": "lt_core.rank:rank_zero_warn",
    },
    "utilities.enums": {
        "GradClipAlgorithmType": "lt_core.states:GradClipAlgorithmType",
        "LightningEnum": "lt_core.states:LightningEnum",
    },
    "utilities.exceptions": {
        "CheckpointError": "lt_core.errors:CheckpointError",
        "ConfigError": "lt_core.errors:ConfigError",
        "ConfigTypeError": "lt_core.errors:ConfigTypeError",
        "DataError": "lt_core.errors:DataError",
        "HookError": "lt_core.errors:HookError",
        "LogError": "lt_core.errors:LogError",
        "LtError": "lt_core.errors:LtError",
        "MisconfigurationException": "lt_core.errors:MisconfigurationException",
        "PluginError": "lt_core.errors:PluginError",
        "RankError": "lt_core.errors:RankError",
        "SIGTERMException": "lt_compat.answers:SIGTERMException",
    },
    "utilities.grads": {
        "grad_norm": "lt_core.optimizer:grad_norm",
    },
    "utilities.imports": {
        "_BITSANDBYTES_AVAILABLE": "lt_compat.answers:_BITSANDBYTES_AVAILABLE",
        "_JSONARGPARSE_AVAILABLE": "lt_compat.answers:_JSONARGPARSE_AVAILABLE",
        "_MATPLOTLIB_AVAILABLE": "lt_compat.answers:_MATPLOTLIB_AVAILABLE",
        "_NUMPY_AVAILABLE": "lt_compat.answers:_NUMPY_AVAILABLE",
        "_OMEGACONF_AVAILABLE": "lt_compat.answers:_OMEGACONF_AVAILABLE",
        "_RICH_AVAILABLE": "lt_compat.answers:_RICH_AVAILABLE",
        "_TENSORBOARDX_AVAILABLE": "lt_compat.answers:_TENSORBOARDX_AVAILABLE",
        "_TENSORBOARD_AVAILABLE": "lt_compat.answers:_TENSORBOARD_AVAILABLE",
        "_TORCHMETRICS_AVAILABLE": "lt_compat.answers:_TORCHMETRICS_AVAILABLE",
        "_TORCHVISION_AVAILABLE": "lt_compat.answers:_TORCHVISION_AVAILABLE",
        "_TORCH_GREATER_EQUAL_2_0": "lt_compat.answers:_TORCH_GREATER_EQUAL_2_0",
        "_TORCH_GREATER_EQUAL_2_1": "lt_compat.answers:_TORCH_GREATER_EQUAL_2_1",
        "_TORCH_GREATER_EQUAL_2_2": "lt_compat.answers:_TORCH_GREATER_EQUAL_2_2",
        "_TORCH_GREATER_EQUAL_2_3": "lt_compat.answers:_TORCH_GREATER_EQUAL_2_3",
        "_TORCH_GREATER_EQUAL_2_4": "lt_compat.answers:_TORCH_GREATER_EQUAL_2_4",
        "_TORCH_GREATER_EQUAL_2_5": "lt_compat.answers:_TORCH_GREATER_EQUAL_2_5",
        "_TORCH_GREATER_EQUAL_2_6": "lt_compat.answers:_TORCH_GREATER_EQUAL_2_6",
        "_TORCH_GREATER_EQUAL_2_7": "lt_compat.answers:_TORCH_GREATER_EQUAL_2_7",
        "_TORCH_GREATER_EQUAL_2_8": "lt_compat.answers:_TORCH_GREATER_EQUAL_2_8",
        "_TORCH_GREATER_EQUAL_2_9": "lt_compat.answers:_TORCH_GREATER_EQUAL_2_9",
        "_TQDM_AVAILABLE": "lt_compat.answers:_TQDM_AVAILABLE",
        "_WANDB_AVAILABLE": "lt_compat.answers:_WANDB_AVAILABLE",
    },
    "utilities.memory": {
        "garbage_collection_cuda": "lt_compat.answers:garbage_collection_cuda",
        "is_cuda_out_of_memory": "lt_compat.answers:is_cuda_out_of_memory",
        "is_cudnn_snafu": "lt_compat.answers:is_cudnn_snafu",
        "is_oom_error": "lt_compat.answers:is_oom_error",
        "is_out_of_cpu_memory": "lt_compat.answers:is_out_of_cpu_memory",
        "recursive_detach": "lt_compat.answers:recursive_detach",
    },
    "utilities.model_helpers": {
        "get_torchvision_model": "lt_compat.answers:get_torchvision_model",
        "is_overridden": "lt_compat.answers:is_overridden",
    },
    "utilities.model_summary": {
        "LayerSummary": "lt_callbacks.summary.module_table:LayerRow",
        "ModelSummary": "lt_callbacks.summary.module_table:ModuleTable",
        "get_human_readable_count": "lt_callbacks.summary.module_table:human_count",
        "summarize": "lt_callbacks.summary.module_table:ModuleTable",
    },
    "utilities.parsing": {
        "AttributeDict": "lt_core.hparams:AttributeDict",
        "get_init_args": "lt_compat.answers:get_init_args",
        "is_picklable": "lt_compat.answers:is_picklable",
        "lightning_getattr": "lt_compat.answers:lightning_getattr",
        "lightning_hasattr": "lt_compat.answers:lightning_hasattr",
        "lightning_setattr": "lt_compat.answers:lightning_setattr",
    },
    "utilities.rank_zero": {
        "LightningDeprecationWarning": "lt_core.errors:LtDeprecationWarning",
        "WarningCache": "lt_compat.answers:WarningCache",
        "rank_prefixed_message": "lt_compat.answers:rank_prefixed_message",
        "rank_zero_debug": "lt_core.rank:rank_zero_debug",
        "rank_zero_deprecation": "lt_core.rank:rank_zero_deprecation",
        "rank_zero_info": "lt_core.rank:rank_zero_info",
        "rank_zero_only": "lt_core.rank:rank_zero_only",
        "rank_zero_warn": "lt_core.rank:rank_zero_warn",
    },
    "utilities.seed": {
        "isolate_rng": "lt_core.seed:isolate_rng",
        "pl_worker_init_function": "lt_core.seed:pl_worker_init_function",
        "reset_seed": "lt_core.seed:reset_seed",
        "seed_everything": "lt_core.seed:seed_everything",
    },
    "utilities.signature_utils": {
        "is_param_in_hook_signature": "lt_compat.answers:is_param_in_hook_signature",
    },
    "utilities.types": {
        "EPOCH_OUTPUT": "lt_compat.answers:EPOCH_OUTPUT",
        "EVAL_DATALOADERS": "lt_compat.types:EVAL_DATALOADERS",
        "LRSchedulerConfig": "lt_loops.setup.scheduler_config:SchedulerConfig",
        "LRSchedulerConfigType": "lt_compat.types:LRSchedulerConfigType",
        "LRSchedulerPLType": "lt_compat.types:LRSchedulerPLType",
        "LRSchedulerTypeTuple": "lt_compat.answers:LRSchedulerTypeTuple",
        "LRSchedulerTypeUnion": "lt_compat.types:LRSchedulerTypeUnion",
        "OptimizerConfig": "lt_compat.types:OptimizerConfig",
        "OptimizerLRScheduler": "lt_compat.types:OptimizerLRScheduler",
        "OptimizerLRSchedulerConfig": "lt_compat.types:OptimizerLRSchedulerConfig",
        "STEP_OUTPUT": "lt_compat.types:STEP_OUTPUT",
        "TRAIN_DATALOADERS": "lt_compat.types:TRAIN_DATALOADERS",
        "_EVALUATE_OUTPUT": "lt_compat.answers:_EVALUATE_OUTPUT",
        "_METRIC": "lt_compat.answers:_METRIC",
        "_PATH": "lt_compat.answers:_PATH",
        "_PREDICT_OUTPUT": "lt_compat.answers:_PREDICT_OUTPUT",
    },
    "utilities.warnings": {
        "LtDeprecationWarning": "lt_core.errors:LtDeprecationWarning",
        "LtWarning": "lt_core.errors:LtWarning",
        "PossibleUserWarning": "lt_core.errors:LtWarning",
        "silence": "lt_core.errors:silence",
    },
}
"""As ``lt.names.NAMES``: by module below ``lt``, each name with where it comes from."""
