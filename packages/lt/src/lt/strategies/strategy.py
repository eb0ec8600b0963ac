"""Names of `lightning.pytorch.strategies.strategy`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "Strategy": "lt_core.strategy:Strategy",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
