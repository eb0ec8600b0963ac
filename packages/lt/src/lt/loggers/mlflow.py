"""Names of `lightning.pytorch.loggers.mlflow`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "MLFlowLogger": "lt_loggers:MLFlowLogger",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
