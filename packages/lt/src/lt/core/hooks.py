"""Names of `lightning.pytorch.core.hooks`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "DataHooks": "lt_core.data:DataSource",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
