"""A test of a run writes beside what it tests, not into a folder of its own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from lt_core.callback import Callback
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["WritesIntoTestedRun"]


class WritesIntoTestedRun(Callback):
    """Gives the loggers the version of the run whose checkpoint is loaded, where that lies below their folder; says so
    where none is loaded.
    """

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Do so before anybody writes; the checkpoint has been chosen by now, be it by ``"last"``."""
        path = getattr(trainer, "ckpt_path", None)  # Lightning's name; no part of what every Trainer must have
        run = None if path is None else Path(path).resolve().parent.parent
        if path is None and trainer.is_global_zero:
            text = "the weights are those that the model is made with. --ckpt_path last: the newest run's."
            print(f"No --ckpt_path: {text}", file=sys.stderr)
        for logger in trainer.loggers:
            if run is not None and logger.root_dir and Path(logger.root_dir).resolve() == run.parent:
                number = re.fullmatch(r"version_(\d+)", run.name)
                logger.use_version(int(number[1]) if number else run.name)
