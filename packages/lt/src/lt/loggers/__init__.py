"""Loggers: where the numbers of a run go."""

from lt.lazy import lazy

NAMES = {
    "CSVLogger": "lt_loggers:CSVLogger",
    "CometLogger": "lt_loggers:CometLogger",
    "JSONLLogger": "lt_loggers:JSONLLogger",
    "LightningLoggerBase": "lt_core.logger:Logger",
    "Logger": "lt_core.logger:Logger",
    "MLFlowLogger": "lt_loggers:MLFlowLogger",
    "TensorBoardLogger": "lt_loggers:TensorBoardLogger",
    "WandbLogger": "lt_loggers:WandbLogger",
}
"""Each name, and where it comes from."""

MODULES = (
    "base",
    "comet",
    "csv_logs",
    "logger",
    "mlflow",
    "tensorboard",
    "wandb",
)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
