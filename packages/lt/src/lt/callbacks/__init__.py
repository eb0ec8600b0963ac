"""Callbacks."""

from lt.lazy import lazy

NAMES = {
    "Callback": "lt_core.callback:Callback",
    "EarlyStopping": "lt_callbacks:EarlyStopping",
    "ModelCheckpoint": "lt_callbacks:ModelCheckpoint",
    "ModelSummary": "lt_callbacks:ModelSummary",
    "ProgressBar": "lt_callbacks:ProgressBar",
    "RichModelSummary": "lt_callbacks:RichModelSummary",
    "RichProgressBar": "lt_callbacks:RichProgressBar",
    "TQDMProgressBar": "lt_callbacks:TQDMProgressBar",
}
"""Each name, and where it comes from."""

MODULES = ("callback", "early_stopping", "model_checkpoint", "model_summary", "progress", "rich_model_summary")
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
