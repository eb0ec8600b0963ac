"""Names that mean the same whatever module of Lightning they are imported from: where each comes from.

These are for ``lt.compat`` alone. Names of :mod:`lt_compat.names.paths` are found from any module too, so that a deep
path (``lightning.pytorch.plugins.environments.slurm``) needs no line of its own.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from lt_compat.names.paths import NAMES as PATHS

__all__ = ["BEFORE", "imported", "origin_of"]

_TABLE = """
lt_compat.lightning.registries:ACCELERATORS = ACCELERATOR_REGISTRY AcceleratorRegistry
lt_compat.lightning.registries:STRATEGIES = STRATEGY_REGISTRY StrategyRegistry
lt_compat.lightning.registries:Registry = _StrategyRegistry _AcceleratorRegistry
lt_compat.lightning.registries:register_classes = _register_classes
lt_compat.lightning.accelerators:Accelerator = Accelerator
lt_compat.lightning.accelerators:CPUAccelerator = CPUAccelerator
lt_compat.lightning.accelerators:CUDAAccelerator = CUDAAccelerator GPUAccelerator
lt_compat.lightning.accelerators:MPSAccelerator = MPSAccelerator
lt_compat.lightning.accelerators:XLAAccelerator = XLAAccelerator TPUAccelerator
lt_compat.lightning.constructors:DDPStrategy = DDPStrategy
lt_compat.lightning.constructors:FSDPStrategy = FSDPStrategy
lt_compat.lightning.constructors:ModelParallelStrategy = ModelParallelStrategy
lt_compat.lightning.constructors:ParallelStrategy = ParallelStrategy
lt_compat.lightning.constructors:SingleDeviceStrategy = SingleDeviceStrategy
lt_compat.lightning.constructors:Strategy = Strategy
lt_compat.lightning.constructors:XLAStrategy = XLAStrategy
lt_compat.lightning.constructors:MixedPrecision = MixedPrecision MixedPrecisionPlugin NativeMixedPrecisionPlugin
lt_compat.lightning.constructors:Precision = Precision PrecisionPlugin
lt_compat.lightning.constructors:DoublePrecision = DoublePrecision DoublePrecisionPlugin
lt_compat.lightning.constructors:HalfPrecision = HalfPrecision
lt_compat.lightning.constructors:precision_named = FSDPPrecision DeepSpeedPrecision XLAPrecision
lt_compat.lightning.constructors:LightningCLI = LightningCLI
lt_compat.lightning.constructors:CSVLogger = fabric:CSVLogger
lt_compat.lightning.constructors:TensorBoardLogger = fabric:TensorBoardLogger
lt_compat.lightning.environments:ClusterEnvironment = ClusterEnvironment
lt_compat.lightning.environments:KubeflowEnvironment = KubeflowEnvironment
lt_compat.lightning.environments:LSFEnvironment = LSFEnvironment
lt_compat.lightning.environments:LightningEnvironment = LightningEnvironment
lt_compat.lightning.environments:MPIEnvironment = MPIEnvironment
lt_compat.lightning.environments:SLURMEnvironment = SLURMEnvironment
lt_compat.lightning.environments:TorchElasticEnvironment = TorchElasticEnvironment
lt_compat.lightning.environments:XLAEnvironment = XLAEnvironment
lt_compat.lightning.fabric:Fabric = Fabric
lt_compat.lightning.fabric_wrappers:FabricModule = _FabricModule
lt_compat.lightning.fabric_wrappers:FabricOptimizer = _FabricOptimizer
lt_compat.lightning.fabric_wrappers:FabricDataLoader = _FabricDataLoader
lt_compat.lightning.fabric_wrappers:is_wrapped = is_wrapped
lt_compat.lightning.fabric_wrappers:DistributedSamplerWrapper = DistributedSamplerWrapper
lt_compat.lightning.logger_names:LightningLoggerBase = LightningLoggerBase
lt_compat.lightning._profilers:Profiler = Profiler BaseProfiler AbstractProfiler
lt_compat.lightning._profilers:PassThroughProfiler = PassThroughProfiler
lt_compat.lightning._profilers:SimpleProfiler = SimpleProfiler
lt_compat.lightning._profilers:AdvancedProfiler = AdvancedProfiler
lt_compat.lightning.states:RunningStage = RunningStage
lt_compat.lightning.states:TrainerFn = TrainerFn
lt_compat.lightning.states:TrainerStatus = TrainerStatus
lt_compat.lightning.utilities:grad_norm = grad_norm
lt_compat.lightning.summary:LayerSummary = LayerSummary
lt_compat.lightning.summary:ModelSummary = summarize utilities.model_summary:ModelSummary
lt_compat.lightning.summary:get_human_readable_count = get_human_readable_count
lt_core.errors:UsageError = MisconfigurationException
jsonargparse:Namespace = cli:Namespace
"""
"""Objects in place of lt's own of the same name."""

_OTHERS = """
types:NoneType = _MockOptimizer
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
lt_compat.lightning.demos:BoringDataModule = BoringDataModule
lt_compat.lightning.demos:BoringModel = BoringModel
lt_compat.lightning.demos:RandomDataset = RandomDataset
lt_core.checkpoint:CheckpointIO = XLACheckpointIO
lt_core.data:DataSource = DataHooks
lt_core.launcher:Launcher = Launcher _Launcher
lt_core.logger:DummyExperiment = _DummyExperiment
lt_core.seed:MAX_SEED = max_seed_value
lt_core.strategy:SingleDevice = SingleDeviceXLAStrategy
lt_compat.lightning.internals:CHECKPOINT_PAST_HPARAMS_KEYS = CHECKPOINT_PAST_HPARAMS_KEYS
lt_compat.lightning.internals:CONVERSION_DTYPES = CONVERSION_DTYPES
lt_compat.lightning.internals:FLOAT16_EPSILON = FLOAT16_EPSILON
lt_compat.lightning.internals:FLOAT32_EPSILON = FLOAT32_EPSILON
lt_compat.lightning.internals:FLOAT64_EPSILON = FLOAT64_EPSILON
lt_compat.lightning.internals:CPU_DEVICE = CPU_DEVICE
lt_compat.lightning.internals:LEFTOVER_PARAMS_NAME = LEFTOVER_PARAMS_NAME
lt_compat.lightning.internals:NOT_APPLICABLE = NOT_APPLICABLE
lt_compat.lightning.internals:PARAMETER_NUM_UNITS = PARAMETER_NUM_UNITS
lt_compat.lightning.internals:UNKNOWN_SIZE = UNKNOWN_SIZE
lt_compat.lightning.internals:Anything = T T_destination BType TBroadcast TModel TReduce
lt_compat.lightning.internals:Anything = LRSchedulerType MODULE_OPTIMIZERS ModuleType _OUT_DICT
lt_compat.lightning.internals:Anything = _AVG_FN _BATCH_OUTPUTS_TYPE _CHECKPOINT _HANDLER _ITERATOR_RETURN
lt_compat.lightning.internals:Anything = _LITERAL_SUPPORTED_MODES _LITERAL_WARN _MANUAL_LOOP_OUTPUTS_TYPE _NUMBER
lt_compat.lightning.internals:Anything = _OPTIMIZER_LOOP_OUTPUTS_TYPE _OUTPUTS_TYPE _PARAMETERS _PARAM_LIST
lt_compat.lightning.internals:Anything = _PARAM_TUPLE _PBAR_DICT _PLUGIN_INPUT _POLICY _POLICY_SET _PRECISION_INPUT
lt_compat.lightning.internals:Anything = _PRECISION_INPUT_INT _PRECISION_INPUT_STR _PRECISION_INPUT_STR_ALIAS
lt_compat.lightning.internals:Anything = _PROFILER _SIGNUM _TABLE_DATA _TABLE_DATA_EXTENDED _TABLE_ROW
lt_compat.lightning.internals:Anything = _TABLE_ROW_EXTENDED _THROUGHPUT_METRICS _VALUE
lt_compat.lightning.internals:CheckpointHooks = CheckpointHooks
lt_compat.lightning.internals:ModelHooks = ModelHooks
lt_compat.lightning.internals:Interval = Interval
lt_compat.lightning.internals:ModuleWrapper = _LightningModuleWrapperBase _LightningPrecisionModuleWrapperBase
lt_compat.lightning.internals:convert_tensors_to_scalars = convert_tensors_to_scalars
lt_compat.lightning.internals:do_nothing = do_nothing_closure
lt_compat.lightning.internals:file_prefix = LOCAL_FILE_URI_PREFIX
lt_compat.lightning.internals:framework = FRAMEWORK_NAME
lt_compat.lightning.internals:gpu_stats = get_nvidia_gpu_stats get_device_stats
lt_compat.lightning.internals:cpu_stats = get_cpu_stats
lt_compat.lightning.internals:interactive = _IS_INTERACTIVE
lt_compat.lightning.internals:min_seed = min_seed_value
lt_compat.lightning.internals:no_logo = LIGHTNING_LOGO cli_lightning_logo
lt_compat.lightning.internals:parse_batch_shape = parse_batch_shape
lt_compat.lightning.internals:rank_of_environment = _get_rank
lt_compat.lightning.internals:reads_environment = _defaults_from_env_vars
lt_compat.lightning.internals:is_local = _is_local_file_protocol
lt_compat.lightning.internals:size_text = get_formatted_model_size
lt_compat.lightning.internals:standard_metrics = get_standard_metrics
lt_compat.lightning.internals:wrap_for_checkpointing = _setup_activation_checkpointing
lt_compat.lightning.trainer:FitLoop = FitLoop _FitLoop _TrainingEpochLoop
lt_compat.lightning.trainer:EvaluationLoop = _EvaluationLoop
lt_compat.lightning.trainer:PredictLoop = _PredictionLoop
lt_compat.lightning.logger_names:WrappingCheckpointIO = _WrappingCheckpointIO
lt_compat.lightning.logger_names:add_prefix = _add_prefix
lt_compat.lightning.logger_names:convert_params = _convert_params
lt_compat.lightning.logger_names:flatten_dict = _flatten_dict
lt_compat.lightning.logger_names:sanitize_callables = _sanitize_callable_params
lt_compat.lightning.logger_names:scan = _scan_checkpoints
lt_strategies.launch.processes:SpawnLauncher = _MultiProcessingLauncher
lt_strategies.launch.script:ScriptLauncher = _SubprocessScriptLauncher
jsonargparse:ActionConfigFile = ActionConfigFile
jsonargparse:ArgumentParser = ArgumentParser
argparse:Namespace = Namespace
"""
_IMPORTED = "collections.abc", "typing", "pathlib", "torch.nn", "torch.optim", "torch.utils.data", "torch"
"""What Lightning's modules import from: code imports these names from there too, as editors offer them."""


def _read(table: str) -> dict[str, str]:
    lines = (line.partition(" = ") for line in table.strip().splitlines())
    return {name: origin for origin, _, names in lines for name in names.split()}


BEFORE = _read(_TABLE)
"""Names whose lt namesake has other arguments, with where ``lt.compat`` takes them from; with a path, or
``fabric``, only there."""


@cache
def origin_of(name: str) -> str:
    """Return ``module:attribute`` of a name that has its place elsewhere; an empty string for others."""
    lt = import_module("lt.names").NAMES if find_spec("lt") is not None else {}
    everywhere = {each: origin for names in (*PATHS.values(), *lt.values()) for each, origin in names.items()}
    return _read(_OTHERS).get(name) or everywhere.get(name, "")


def imported(name: str) -> str:
    """Return ``module:attribute`` of a class of Python's or torch's; an empty string for others."""
    found = (f"{module}:{name}" for module in _IMPORTED if hasattr(import_module(module), name))
    return next(found, "") if name[0].isupper() else ""
