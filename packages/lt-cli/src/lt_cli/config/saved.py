"""``SaveConfigCallback``: the configuration of a run is saved with the run."""

from __future__ import annotations

import os
from pathlib import Path

from jsonargparse import Namespace

from lt_cli.config.argument_parser import LightningArgumentParser
from lt_core.callback import Callback
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["SaveConfigCallback"]


class SaveConfigCallback(Callback):
    """Saves the configuration in the run's folder, so that ``lt fit --config config.yaml`` repeats the run.

    A file that is there already and says something else is kept: the new one is ``config-1.yaml``.

    Args:
        parser: of the configuration.
        config: the configuration.
        config_filename: the file's name.
        overwrite: replace a file that is there already.
        multifile: write files that the configuration named beside it, as they were.
        save_to_log_dir: False leaves it to :meth:`save_config` of a subclass.
    """

    def __init__(
        self,
        parser: LightningArgumentParser,
        config: Namespace,
        config_filename: str = "config.yaml",
        overwrite: bool = False,
        multifile: bool = False,
        save_to_log_dir: bool = True,
    ) -> None:
        self.parser = parser
        self.config = config
        self.config_filename = config_filename
        self.overwrite = overwrite
        self.multifile = multifile
        self.save_to_log_dir = save_to_log_dir
        self.already_saved = False

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self.already_saved = False

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Save, once for a fit and the evaluations around it, on rank 0."""
        if self.already_saved:
            return
        self.already_saved = True
        if not trainer.is_global_zero:
            return
        if self.save_to_log_dir:
            self._lt_save(Path(trainer.log_dir or trainer.default_root_dir))
        self.save_config(trainer, pl_module, stage)

    def save_config(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Save the configuration elsewhere too; for subclasses. Called on rank 0, once."""

    def _lt_save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        text = self.parser.dump(self.config, skip_unset=False)
        target = self._lt_free_name(folder, text)
        if self.multifile:
            self.parser.save(self.config, target, skip_unset=False, overwrite=True, multifile=True)
            return
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        beside.write_text(text, "utf-8")
        beside.replace(target)

    def _lt_free_name(self, folder: Path, text: str) -> Path:
        """Return the file to write: one that is not there, or says the same, or may be replaced."""
        wanted = Path(self.config_filename)
        target, number = folder / wanted, 0
        while not self.overwrite and target.exists() and target.read_text("utf-8", errors="replace") != text:
            number += 1
            target = folder / f"{wanted.stem}-{number}{wanted.suffix}"
        return target
