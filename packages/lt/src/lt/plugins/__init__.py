"""What `Trainer(plugins=[...])` takes: precision, environments, checkpoint IO."""

from lt.lazy import lazy

NAMES = {
    "AsyncCheckpointIO": "lt_core.background:AsyncCheckpointIO",
    "BitsandbytesPrecision": "lt_strategies.bitsandbytes:Bitsandbytes",
    "CheckpointIO": "lt_core.checkpoint:CheckpointIO",
    "DoublePrecision": "lt_strategies.precision:double",
    "Mixed": "lt_strategies.precision:Mixed",
    "Precision": "lt_core.precision:Precision",
    "ScaledMixed": "lt_strategies.precision:ScaledMixed",
    "TorchCheckpointIO": "lt_core.checkpoint:CheckpointIO",
    "TransformerEnginePrecision": "lt_strategies.transformer_engine:TransformerEngine",
    "TruePrecision": "lt_strategies.precision:TruePrecision",
}
"""Each name, and where it comes from."""

MODULES = ("environments", "io", "precision")
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
