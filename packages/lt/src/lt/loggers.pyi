# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_core.logger import Logger as LightningLoggerBase
from lt_core.logger import Logger as Logger
from lt_loggers.comet import CometLogger as CometLogger
from lt_loggers.csv_file import CSVLogger as CSVLogger
from lt_loggers.jsonl import JSONLLogger as JSONLLogger
from lt_loggers.memory import MemoryLogger as MemoryLogger
from lt_loggers.mlflow import MLFlowLogger as MLFlowLogger
from lt_loggers.opentelemetry import OpenTelemetryLogger as OpenTelemetryLogger
from lt_loggers.stdout import StdoutLogger as StdoutLogger
from lt_loggers.tensorboard.logger import TensorBoardLogger as TensorBoardLogger
from lt_loggers.tracker import TrackerLogger as TrackerLogger
from lt_loggers.trackio import TrackioLogger as TrackioLogger
from lt_loggers.wandb import WandbLogger as WandbLogger

__all__ = [
    "CSVLogger",
    "CometLogger",
    "JSONLLogger",
    "LightningLoggerBase",
    "Logger",
    "MLFlowLogger",
    "MemoryLogger",
    "OpenTelemetryLogger",
    "StdoutLogger",
    "TensorBoardLogger",
    "TrackerLogger",
    "TrackioLogger",
    "WandbLogger",
]
