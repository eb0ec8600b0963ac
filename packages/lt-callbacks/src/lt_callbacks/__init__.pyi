# Written by tools/stubs.py from the table in __init__.py.

from lt_callbacks.checkpoint.base import Checkpoint as Checkpoint
from lt_callbacks.checkpoint.model_checkpoint import ModelCheckpoint as ModelCheckpoint
from lt_callbacks.checkpoint.on_exception import OnExceptionCheckpoint as OnExceptionCheckpoint
from lt_callbacks.lambda_function import LambdaCallback as LambdaCallback
from lt_callbacks.monitors.learning_rate import LearningRateMonitor as LearningRateMonitor
from lt_callbacks.prediction_writer import BasePredictionWriter as BasePredictionWriter
from lt_callbacks.progress.progress_bar import ProgressBar as ProgressBar
from lt_callbacks.progress.rich_progress import RichProgressBar as RichProgressBar
from lt_callbacks.progress.rich_progress import RichProgressBarTheme as RichProgressBarTheme
from lt_callbacks.progress.tqdm_progress import TQDMProgressBar as TQDMProgressBar
from lt_callbacks.stopping.early_stopping import EarlyStopping as EarlyStopping
from lt_callbacks.stopping.timer import Timer as Timer
from lt_callbacks.summary.model_summary import ModelSummary as ModelSummary
from lt_callbacks.summary.rich_model_summary import RichModelSummary as RichModelSummary
from lt_core.callback import Callback as Callback

__version__: str
