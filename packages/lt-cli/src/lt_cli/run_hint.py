"""How the metrics of a finished run can be looked at: the Trainer asks for it by the role ``run_hint``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from lt_cli.run_metrics import has_metrics
from lt_cli.short_path import short_path

if TYPE_CHECKING:
    from lt_core.trainer import TrainerAPI

__all__ = ["plot_hint"]


def plot_hint(trainer: TrainerAPI) -> str | None:
    """Return the command that draws the run of ``trainer``; None where no logger left files that it reads."""
    folders = dict.fromkeys(logger.log_dir for logger in trainer.loggers if logger.log_dir)
    shown = next((Path(folder) for folder in folders if has_metrics(Path(folder))), None)
    return None if shown is None else f"Metrics: lt plot {shlex.quote(short_path(shown))}"
