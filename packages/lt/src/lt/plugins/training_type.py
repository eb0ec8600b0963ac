"""Names of `pytorch_lightning.plugins.training_type`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "DDPPlugin": "lt_strategies.ddp:DDP",
    "DDPSpawnPlugin": "lt_strategies.ddp:ddp_spawn",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
