# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.early_stopping import EarlyStopping as EarlyStopping
from lt_callbacks.model_checkpoint import ModelCheckpoint as ModelCheckpoint
from lt_callbacks.model_summary import ModelSummary as ModelSummary
from lt_callbacks.progress.progress_bar import ProgressBar as ProgressBar
from lt_callbacks.progress.rich_progress import RichProgressBar as RichProgressBar
from lt_callbacks.progress.tqdm_progress import TQDMProgressBar as TQDMProgressBar
from lt_callbacks.rich_model_summary import RichModelSummary as RichModelSummary
from lt_core.callback import Callback as Callback
from lt.callbacks import callback as callback
from lt.callbacks import early_stopping as early_stopping
from lt.callbacks import model_checkpoint as model_checkpoint
from lt.callbacks import model_summary as model_summary
from lt.callbacks import progress as progress
from lt.callbacks import rich_model_summary as rich_model_summary

__all__ = [
    "Callback",
    "EarlyStopping",
    "ModelCheckpoint",
    "ModelSummary",
    "ProgressBar",
    "RichModelSummary",
    "RichProgressBar",
    "TQDMProgressBar",
    "callback",
    "early_stopping",
    "model_checkpoint",
    "model_summary",
    "progress",
    "rich_model_summary",
]
