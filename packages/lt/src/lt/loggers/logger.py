"""Names of `lightning.pytorch.loggers.logger`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "Logger": "lt_core.logger:Logger",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
