# Written by tools/stubs.py from the table in the module beside it.

from lt_loggers.mlflow import MLFlowLogger as MLFlowLogger

__all__ = [
    "MLFlowLogger",
]
