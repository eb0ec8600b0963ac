"""Names of `lightning.pytorch.loggers.csv_logs`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "CSVLogger": "lt_loggers:CSVLogger",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
