"""What `Trainer(plugins=[...])` takes: precision, environments, checkpoint IO."""

from lt.lazy import lazy

NAMES = {
    "AsyncCheckpointIO": "lt_core.background:AsyncCheckpointIO",
    "BitsandbytesPrecision": "lt_strategies.bitsandbytes:Bitsandbytes",
    "CheckpointIO": "lt_core.checkpoint:CheckpointIO",
    "ClusterEnvironment": "lt_core.environment:Environment",
    "DDPPlugin": "lt_strategies.ddp:DDP",
    "DDPSpawnPlugin": "lt_strategies.ddp:ddp_spawn",
    "DoublePrecision": "lt_strategies.precision:double",
    "DoublePrecisionPlugin": "lt_strategies.precision:double",
    "HalfPrecision": "lt_strategies.precision:TruePrecision",
    "Mixed": "lt_strategies.precision:Mixed",
    "MixedPrecision": "lt_strategies.precision:Mixed",
    "MixedPrecisionPlugin": "lt_strategies.precision:Mixed",
    "NativeMixedPrecisionPlugin": "lt_strategies.precision:Mixed",
    "Precision": "lt_core.precision:Precision",
    "PrecisionPlugin": "lt_core.precision:Precision",
    "ScaledMixed": "lt_strategies.precision:ScaledMixed",
    "TorchCheckpointIO": "lt_core.checkpoint:CheckpointIO",
    "TransformerEnginePrecision": "lt_strategies.transformer_engine:TransformerEngine",
    "TruePrecision": "lt_strategies.precision:TruePrecision",
}
"""Each name, and where it comes from."""

MODULES = (
    "environments",
    "io",
    "precision",
    "training_type",
)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
