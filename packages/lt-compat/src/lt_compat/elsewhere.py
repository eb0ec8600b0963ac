"""Names that mean the same whatever module of Lightning they are imported from: where each comes from.

These are for ``lt.compat`` alone. Those of :mod:`lt_compat.paths` are found from any module too, so that a deep path
(``lightning.pytorch.plugins.environments.slurm``) needs no line of its own.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from lt_compat.paths import NAMES as PATHS

__all__ = ["BEFORE", "origin_of"]

_TABLE = """
lt_compat.registries:ACCELERATORS = ACCELERATOR_REGISTRY AcceleratorRegistry
lt_compat.registries:STRATEGIES = STRATEGY_REGISTRY StrategyRegistry
lt_compat.registries:Registry = _StrategyRegistry _AcceleratorRegistry
lt_compat.constructors:DDPStrategy = DDPStrategy
lt_compat.constructors:FSDPStrategy = FSDPStrategy
lt_compat.constructors:ModelParallelStrategy = ModelParallelStrategy
lt_compat.constructors:SingleDeviceStrategy = SingleDeviceStrategy
lt_compat.constructors:XLAStrategy = XLAStrategy
lt_compat.constructors:MixedPrecision = MixedPrecision MixedPrecisionPlugin NativeMixedPrecisionPlugin
lt_compat.constructors:DoublePrecision = DoublePrecision DoublePrecisionPlugin
lt_compat.constructors:precision_named = FSDPPrecision DeepSpeedPrecision XLAPrecision
lt_compat.constructors:LightningCLI = LightningCLI
lt_compat.constructors:CSVLogger = CSVLogger
lt_compat.constructors:TensorBoardLogger = TensorBoardLogger
lt_compat.environments:ClusterEnvironment = ClusterEnvironment
lt_compat.environments:KubeflowEnvironment = KubeflowEnvironment
lt_compat.environments:LSFEnvironment = LSFEnvironment
lt_compat.environments:LightningEnvironment = LightningEnvironment
lt_compat.environments:MPIEnvironment = MPIEnvironment
lt_compat.environments:SLURMEnvironment = SLURMEnvironment
lt_compat.environments:TorchElasticEnvironment = TorchElasticEnvironment
lt_compat.environments:XLAEnvironment = XLAEnvironment
lt_compat.fabric:Fabric = Fabric
lt_compat.fabric:FabricModule = _FabricModule
lt_compat.fabric:FabricOptimizer = _FabricOptimizer
lt_compat.fabric:FabricDataLoader = _FabricDataLoader
lt_compat.fabric:is_wrapped = is_wrapped
lt_compat.fabric:DistributedSamplerWrapper = DistributedSamplerWrapper
lt_compat.profilers:Profiler = Profiler BaseProfiler AbstractProfiler
lt_compat.profilers:PassThroughProfiler = PassThroughProfiler
lt_compat.profilers:SimpleProfiler = SimpleProfiler
lt_compat.summary:LayerSummary = LayerSummary
lt_compat.summary:ModelSummary = summarize utilities.model_summary:ModelSummary
lt_compat.summary:get_human_readable_count = get_human_readable_count
lt_core.errors:UsageError = MisconfigurationException
"""
"""What takes the place of lt's own of that name."""

_OTHERS = """
torch.cuda:is_available = is_cuda_available
torch.cuda:device_count = num_cuda_devices
torch.distributed:ReduceOp = ReduceOp
torch.distributed:group = group
torch.distributed:ProcessGroup = CollectibleGroup
torch.distributed.constants:default_pg_timeout = default_pg_timeout
torch:UntypedStorage = UntypedStorage
torch.optim.lr_scheduler:LRScheduler = LRScheduler
torch.optim.lr_scheduler:ReduceLROnPlateau = ReduceLROnPlateau
torch.nn.parallel:DistributedDataParallel = DistributedDataParallel
torch.optim:Optimizer = Optimizable Steppable
torch.nn:Module = _DeviceDtypeModuleMixin
torch.distributed:is_initialized = _distributed_is_initialized
lt_callbacks.stopping.early_stopping:EarlyStoppingReason = EarlyStoppingReason
lt_core.checkpoint:CheckpointIO = XLACheckpointIO
lt_core.data:DataSource = DataHooks
lt_core.launcher:Launcher = Launcher _Launcher
lt_core.logger:DummyExperiment = _DummyExperiment
lt_core.seed:MAX_SEED = max_seed_value
lt_core.strategy:SingleDevice = SingleDeviceXLAStrategy
lt_compat.insides:CHECKPOINT_PAST_HPARAMS_KEYS = CHECKPOINT_PAST_HPARAMS_KEYS
lt_compat.insides:CONVERSION_DTYPES = CONVERSION_DTYPES
lt_compat.insides:FLOAT16_EPSILON = FLOAT16_EPSILON
lt_compat.insides:FLOAT32_EPSILON = FLOAT32_EPSILON
lt_compat.insides:FLOAT64_EPSILON = FLOAT64_EPSILON
lt_compat.insides:CPU_DEVICE = CPU_DEVICE
lt_compat.insides:LEFTOVER_PARAMS_NAME = LEFTOVER_PARAMS_NAME
lt_compat.insides:NOT_APPLICABLE = NOT_APPLICABLE
lt_compat.insides:PARAMETER_NUM_UNITS = PARAMETER_NUM_UNITS
lt_compat.insides:UNKNOWN_SIZE = UNKNOWN_SIZE
lt_compat.insides:Anything = T T_destination BType TBroadcast TModel TReduce
lt_compat.insides:Anything = LRSchedulerType MODULE_OPTIMIZERS ModuleType _OUT_DICT
lt_compat.insides:Empty = CheckpointHooks ModelHooks
lt_compat.insides:Interval = Interval
lt_compat.insides:ModuleWrapper = _LightningModuleWrapperBase _LightningPrecisionModuleWrapperBase
lt_compat.insides:convert_tensors_to_scalars = convert_tensors_to_scalars
lt_compat.insides:do_nothing = do_nothing_closure
lt_compat.insides:file_prefix = LOCAL_FILE_URI_PREFIX
lt_compat.insides:framework = FRAMEWORK_NAME
lt_compat.insides:gpu_stats = get_nvidia_gpu_stats get_device_stats
lt_compat.insides:cpu_stats = get_cpu_stats
lt_compat.insides:interactive = _IS_INTERACTIVE
lt_compat.insides:min_seed = min_seed_value
lt_compat.insides:no_logo = LIGHTNING_LOGO cli_lightning_logo
lt_compat.insides:parse_batch_shape = parse_batch_shape
lt_compat.insides:rank_of_environment = _get_rank
lt_compat.insides:size_text = get_formatted_model_size
lt_compat.insides:standard_metrics = get_standard_metrics
lt_compat.insides:wrap_for_checkpointing = _setup_activation_checkpointing
lt_compat.trainer:FitLoop = FitLoop _FitLoop _TrainingEpochLoop
lt_compat.trainer:EvaluationLoop = _EvaluationLoop
lt_compat.trainer:PredictLoop = _PredictionLoop
lt_compat.logger_names:WrappingCheckpointIO = _WrappingCheckpointIO
lt_compat.logger_names:add_prefix = _add_prefix
lt_compat.logger_names:convert_params = _convert_params
lt_compat.logger_names:flatten_dict = _flatten_dict
lt_compat.logger_names:sanitize_callables = _sanitize_callable_params
lt_compat.logger_names:scan = _scan_checkpoints
lt_strategies.processes:SpawnLauncher = _MultiProcessingLauncher
lt_strategies.script:ScriptLauncher = _SubprocessScriptLauncher
"""


def _read(table: str) -> dict[str, str]:
    lines = (line.partition(" = ") for line in table.strip().splitlines())
    return {name: origin for origin, _, names in lines for name in names.split()}


BEFORE = _read(_TABLE)
"""Names whose lt namesake has other arguments, with where ``lt.compat`` takes them from; with a path, only there."""


@cache
def origin_of(name: str) -> str:
    """Return ``module:attribute`` of a name that has its place elsewhere; an empty string for others."""
    lt = import_module("lt.names").NAMES if find_spec("lt") is not None else {}
    everywhere = {each: origin for names in (*PATHS.values(), *lt.values()) for each, origin in names.items()}
    return _read(_OTHERS).get(name) or everywhere.get(name, "")
