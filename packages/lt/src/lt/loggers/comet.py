"""Names of `lightning.pytorch.loggers.comet`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "CometLogger": "lt_loggers:CometLogger",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
