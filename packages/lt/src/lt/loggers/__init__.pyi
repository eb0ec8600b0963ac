# Written by tools/stubs.py from the table in the module beside it.

from lt_core.logger import Logger as LightningLoggerBase
from lt_core.logger import Logger as Logger
from lt_loggers.comet import CometLogger as CometLogger
from lt_loggers.csv_file import CSVLogger as CSVLogger
from lt_loggers.jsonl import JSONLLogger as JSONLLogger
from lt_loggers.mlflow import MLFlowLogger as MLFlowLogger
from lt_loggers.tensorboard import TensorBoardLogger as TensorBoardLogger
from lt_loggers.wandb import WandbLogger as WandbLogger
from lt.loggers import base as base
from lt.loggers import comet as comet
from lt.loggers import csv_logs as csv_logs
from lt.loggers import logger as logger
from lt.loggers import mlflow as mlflow
from lt.loggers import tensorboard as tensorboard
from lt.loggers import wandb as wandb

__all__ = [
    "CSVLogger",
    "CometLogger",
    "JSONLLogger",
    "LightningLoggerBase",
    "Logger",
    "MLFlowLogger",
    "TensorBoardLogger",
    "WandbLogger",
    "base",
    "comet",
    "csv_logs",
    "logger",
    "mlflow",
    "tensorboard",
    "wandb",
]
