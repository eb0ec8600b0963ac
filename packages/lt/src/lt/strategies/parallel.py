"""Names of `lightning.pytorch.strategies.parallel`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "ParallelStrategy": "lt_strategies.distributed:Distributed",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
