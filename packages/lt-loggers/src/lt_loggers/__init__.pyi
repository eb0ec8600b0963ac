# Written by tools/stubs.py from the table in __init__.py.

from lt_loggers.comet import CometLogger as CometLogger
from lt_loggers.csv_file import CSVLogger as CSVLogger
from lt_loggers.jsonl import JSONLLogger as JSONLLogger
from lt_loggers.media import Audio as Audio
from lt_loggers.media import Figure as Figure
from lt_loggers.media import Histogram as Histogram
from lt_loggers.media import Image as Image
from lt_loggers.media import Media as Media
from lt_loggers.media import Table as Table
from lt_loggers.media import Text as Text
from lt_loggers.media import Video as Video
from lt_loggers.media import as_media as as_media
from lt_loggers.memory import MemoryLogger as MemoryLogger
from lt_loggers.mlflow import MLFlowLogger as MLFlowLogger
from lt_loggers.opentelemetry import OpenTelemetryLogger as OpenTelemetryLogger
from lt_loggers.stdout import StdoutLogger as StdoutLogger
from lt_loggers.tensorboard.logger import TensorBoardLogger as TensorBoardLogger
from lt_loggers.tracker import TrackerLogger as TrackerLogger
from lt_loggers.trackio import TrackioLogger as TrackioLogger
from lt_loggers.wandb import WandbLogger as WandbLogger

__version__: str
