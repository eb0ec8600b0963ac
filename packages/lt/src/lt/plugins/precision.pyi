# Written by tools/stubs.py from the table in the module beside it.

from lt_core.precision import Precision as Precision
from lt_core.precision import Precision as PrecisionPlugin
from lt_strategies.bitsandbytes import Bitsandbytes as BitsandbytesPrecision
from lt_strategies.precision import Mixed as Mixed
from lt_strategies.precision import Mixed as MixedPrecision
from lt_strategies.precision import Mixed as MixedPrecisionPlugin
from lt_strategies.precision import ScaledMixed as ScaledMixed
from lt_strategies.precision import TruePrecision as HalfPrecision
from lt_strategies.precision import TruePrecision as TruePrecision
from lt_strategies.precision import double as DoublePrecision
from lt_strategies.transformer_engine import TransformerEngine as TransformerEnginePrecision

__all__ = [
    "BitsandbytesPrecision",
    "DoublePrecision",
    "HalfPrecision",
    "Mixed",
    "MixedPrecision",
    "MixedPrecisionPlugin",
    "Precision",
    "PrecisionPlugin",
    "ScaledMixed",
    "TransformerEnginePrecision",
    "TruePrecision",
]
