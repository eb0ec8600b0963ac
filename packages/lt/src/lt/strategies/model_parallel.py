"""Names of `lightning.pytorch.strategies.model_parallel`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "ModelParallelStrategy": "lt_strategies.fsdp:ModelParallel",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
