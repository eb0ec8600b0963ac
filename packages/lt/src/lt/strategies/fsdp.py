"""Names of `lightning.pytorch.strategies.fsdp`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "FSDPStrategy": "lt_strategies.fsdp:FSDP",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
