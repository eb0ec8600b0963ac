"""How the metrics of a finished run can be looked at: the Trainer asks for it by the role ``run_hint``."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lt_cli.run_metrics import has_metrics
from lt_core.terminal import short_path

if TYPE_CHECKING:
    from lt_core.trainer import TrainerAPI

__all__ = ["plot_hint"]


def plot_hint(trainer: TrainerAPI) -> str | None:
    """Return the command that draws the run of ``trainer``; None where no logger left files that it reads."""
    folders = dict.fromkeys(logger.log_dir for logger in trainer.loggers if logger.log_dir)
    shown = next((Path(folder) for folder in folders if has_metrics(Path(folder))), None)
    return None if shown is None else f"Metrics: {_lt()} plot {shlex.quote(short_path(shown))}"


def _lt() -> str:
    """Return what the user types for ``lt``: a script that ``uv run`` started has it on its path, the shell has not."""
    if "UV_RUN_RECURSION_DEPTH" in os.environ:
        return "uv run lt"
    return "lt" if shutil.which("lt") else f"{shlex.quote(sys.executable)} -m lt_cli.main"
