# Written by tools/stubs.py from the table in the module beside it.

from lt_core.background import AsyncCheckpointIO as AsyncCheckpointIO
from lt_core.checkpoint import CheckpointIO as CheckpointIO
from lt_core.checkpoint import CheckpointIO as TorchCheckpointIO
from lt_core.environment import Environment as ClusterEnvironment
from lt_core.precision import Precision as Precision
from lt_core.precision import Precision as PrecisionPlugin
from lt_strategies.bitsandbytes import Bitsandbytes as BitsandbytesPrecision
from lt_strategies.ddp import DDP as DDPPlugin
from lt_strategies.ddp import ddp_spawn as DDPSpawnPlugin
from lt_strategies.precision import Mixed as Mixed
from lt_strategies.precision import Mixed as MixedPrecision
from lt_strategies.precision import Mixed as MixedPrecisionPlugin
from lt_strategies.precision import Mixed as NativeMixedPrecisionPlugin
from lt_strategies.precision import ScaledMixed as ScaledMixed
from lt_strategies.precision import TruePrecision as HalfPrecision
from lt_strategies.precision import TruePrecision as TruePrecision
from lt_strategies.precision import double as DoublePrecision
from lt_strategies.precision import double as DoublePrecisionPlugin
from lt_strategies.transformer_engine import TransformerEngine as TransformerEnginePrecision
from lt.plugins import environments as environments
from lt.plugins import io as io
from lt.plugins import precision as precision
from lt.plugins import training_type as training_type

__all__ = [
    "AsyncCheckpointIO",
    "BitsandbytesPrecision",
    "CheckpointIO",
    "ClusterEnvironment",
    "DDPPlugin",
    "DDPSpawnPlugin",
    "DoublePrecision",
    "DoublePrecisionPlugin",
    "HalfPrecision",
    "Mixed",
    "MixedPrecision",
    "MixedPrecisionPlugin",
    "NativeMixedPrecisionPlugin",
    "Precision",
    "PrecisionPlugin",
    "ScaledMixed",
    "TorchCheckpointIO",
    "TransformerEnginePrecision",
    "TruePrecision",
    "environments",
    "io",
    "precision",
    "training_type",
]
