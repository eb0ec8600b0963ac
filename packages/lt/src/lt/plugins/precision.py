"""Precision: number formats and scaling."""

from lt.lazy import lazy

NAMES = {
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
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
