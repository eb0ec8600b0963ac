# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_checkpoint._background import AsyncCheckpointIO as AsyncCheckpointIO
from lt_checkpoint._torch_files import TorchCheckpointIO as TorchCheckpointIO
from lt_core.checkpoint import CheckpointIO as CheckpointIO
from lt_core.environment import Environment as ClusterEnvironment
from lt_core.precision import Precision as Precision
from lt_core.precision import Precision as PrecisionPlugin
from lt_lowbits.bitsandbytes import Bitsandbytes as BitsandbytesPrecision
from lt_lowbits.torchao import Float8 as Float8
from lt_lowbits.torchao import Int8 as Int8
from lt_lowbits.transformer_engine import TransformerEngine as TransformerEnginePrecision
from lt_strategies.ddp import DDP as DDPPlugin
from lt_strategies.ddp import ddp_spawn as DDPSpawnPlugin
from lt_strategies.environments import Kubernetes as Kubernetes
from lt_strategies.environments import LaunchedEnvironment as LaunchedEnvironment
from lt_strategies.environments import Lsf as Lsf
from lt_strategies.environments import Mpi as Mpi
from lt_strategies.environments import Plain as Plain
from lt_strategies.environments import Slurm as Slurm
from lt_strategies.environments import Torchrun as Torchrun
from lt_strategies.precision.dtypes import Mixed as Mixed
from lt_strategies.precision.dtypes import Mixed as MixedPrecision
from lt_strategies.precision.dtypes import Mixed as MixedPrecisionPlugin
from lt_strategies.precision.dtypes import Mixed as NativeMixedPrecisionPlugin
from lt_strategies.precision.dtypes import ScaledMixed as ScaledMixed
from lt_strategies.precision.dtypes import TruePrecision as HalfPrecision
from lt_strategies.precision.dtypes import TruePrecision as TruePrecision
from lt_strategies.precision.dtypes import double as DoublePrecision
from lt_strategies.precision.dtypes import double as DoublePrecisionPlugin
from lt_uploads import UploadingCheckpointIO as UploadingCheckpointIO

__all__ = [
    "AsyncCheckpointIO",
    "BitsandbytesPrecision",
    "CheckpointIO",
    "ClusterEnvironment",
    "DDPPlugin",
    "DDPSpawnPlugin",
    "DoublePrecision",
    "DoublePrecisionPlugin",
    "Float8",
    "HalfPrecision",
    "Int8",
    "Kubernetes",
    "LaunchedEnvironment",
    "Lsf",
    "Mixed",
    "MixedPrecision",
    "MixedPrecisionPlugin",
    "Mpi",
    "NativeMixedPrecisionPlugin",
    "Plain",
    "Precision",
    "PrecisionPlugin",
    "ScaledMixed",
    "Slurm",
    "TorchCheckpointIO",
    "Torchrun",
    "TransformerEnginePrecision",
    "TruePrecision",
    "UploadingCheckpointIO",
]
