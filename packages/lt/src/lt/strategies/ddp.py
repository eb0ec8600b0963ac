"""Names of `lightning.pytorch.strategies.ddp`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "DDPStrategy": "lt_strategies.ddp:DDP",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
