# Written by tools/stubs.py from the table in the module beside it.

from lt_core.background import AsyncCheckpointIO as AsyncCheckpointIO
from lt_core.checkpoint import CheckpointIO as CheckpointIO
from lt_core.checkpoint import CheckpointIO as TorchCheckpointIO
from lt_core.precision import Precision as Precision
from lt_strategies.bitsandbytes import Bitsandbytes as BitsandbytesPrecision
from lt_strategies.precision import Mixed as Mixed
from lt_strategies.precision import ScaledMixed as ScaledMixed
from lt_strategies.precision import TruePrecision as TruePrecision
from lt_strategies.precision import double as DoublePrecision
from lt_strategies.transformer_engine import TransformerEngine as TransformerEnginePrecision
from lt.plugins import environments as environments
from lt.plugins import io as io
from lt.plugins import precision as precision

__all__ = [
    "AsyncCheckpointIO",
    "BitsandbytesPrecision",
    "CheckpointIO",
    "DoublePrecision",
    "Mixed",
    "Precision",
    "ScaledMixed",
    "TorchCheckpointIO",
    "TransformerEnginePrecision",
    "TruePrecision",
    "environments",
    "io",
    "precision",
]
