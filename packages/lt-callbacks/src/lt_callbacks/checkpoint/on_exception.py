"""Saves a checkpoint when an exception ends the run."""

from __future__ import annotations

import os

from lt_callbacks.checkpoint.base import failed_together
from lt_callbacks.checkpoint.naming import absolute, check_template, path_in
from lt_core.arguments import checks_arguments
from lt_core.callback import Callback
from lt_core.errors import ConfigError
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["OnExceptionCheckpoint"]


class OnExceptionCheckpoint(Callback):
    """Saves a checkpoint when an exception ends ``fit``; an older one of the same name is replaced.

    It takes all ranks: where only some of them failed, nothing is saved, and a warning says so. ``ckpt_path="last"``
    and ``"auto"`` look into its folder too.

    Args:
        dirpath: folder of the checkpoint.
        filename: its name without ending.

    Raises:
        ConfigError: for an empty name, or one that leads out of the folder.
    """

    role = "exception_checkpoint"
    FILE_EXTENSION = ".ckpt"

    @checks_arguments
    def __init__(self, dirpath: str | os.PathLike[str], filename: str = "on_exception") -> None:
        if not filename:
            raise ConfigError("OnExceptionCheckpoint(filename=''): expected a name.", code="LT178")
        super().__init__()
        self.dirpath = absolute(dirpath)
        self._lt_trains = False
        self.filename = check_template("OnExceptionCheckpoint", filename)

    @property
    def ckpt_path(self) -> str:
        """Where the checkpoint goes."""
        return path_in(self.dirpath, self.filename + self.FILE_EXTENSION)

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        self._lt_trains = False

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_trains = True

    def on_exception(self, trainer: TrainerAPI, pl_module: LightningModule, exception: BaseException) -> None:
        """Save, where all ranks failed; not before training begins: a run that resumes has not its state yet."""
        if self._lt_trains and trainer.stage == "fit" and failed_together("OnExceptionCheckpoint", trainer):
            trainer.save_checkpoint(self.ckpt_path)
            trainer.print(f"Saved {self.ckpt_path} after {type(exception).__name__}.")
