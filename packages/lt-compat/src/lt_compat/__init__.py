"""Other people's Lightning code on lt: its module names and its helpers.

``python -m lt.compat train.py`` runs a script that imports ``lightning`` or ``pytorch_lightning`` unchanged;
:func:`install` does the same for the present process.
"""

from __future__ import annotations

from typing import Any

from lt_compat.install import install, main

__version__: str

__all__ = ["install", "main"]

_WHERE = dict.fromkeys(
    ("GradClipAlgorithmType", "LightningEnum", "RunningStage", "TrainerFn", "TrainerState", "TrainerStatus"),
    ".lightning.trainer_state",
)


def __getattr__(name: str) -> Any:
    from lt_core.plugins import load_name

    return load_name(__name__, _WHERE, name)
