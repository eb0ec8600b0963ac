"""Names of `lightning.pytorch.loggers.wandb`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "WandbLogger": "lt_loggers:WandbLogger",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
