"""The logger of ``Trainer(logger=True)``: a room of its own, so that only the logger that is chosen is imported."""

from __future__ import annotations

import os
from importlib.util import find_spec

from lt_core.errors import warn
from lt_core.logger import Logger
from lt_core.plugins import install_hint
from lt_core.rank import process_rank

__all__ = ["default_logger"]

_warned = False


def default_logger(save_dir: str | os.PathLike[str]) -> Logger:
    """Return a TensorBoardLogger where TensorBoard is installed, else a CSVLogger with one note how to get it.

    Args:
        save_dir: folder of all experiments; the files go to ``save_dir/lightning_logs/version_N``.
    """
    global _warned
    if find_spec("tensorboard"):
        from lt_loggers.tensorboard.logger import TensorBoardLogger

        return TensorBoardLogger(save_dir)
    from lt_loggers.csv_file import CSVLogger

    if not _warned and not process_rank():
        _warned = True
        warn(
            "TensorBoard is not installed, so metrics go to metrics.csv. To have curves in TensorBoard: "
            f"{install_hint('lt-loggers[tensorboard]')}; to go on with CSV without this note: Trainer(logger='csv').",
            code="LT553",
        )
    return CSVLogger(save_dir)
