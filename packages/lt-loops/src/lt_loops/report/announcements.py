"""What a fit says when it begins and when it ends; ``Trainer(enable_progress_bar=False)`` keeps it quiet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from lt_core.errors import warn
from lt_core.terminal.short_path import short_path

if TYPE_CHECKING:
    from lt_core.module import LightningModule
    from lt_loops.run.frame import Run


def speaks(run: Run) -> bool:
    """Return whether this process says where ``run`` stands."""
    return run.strategy.rank == 0 and run.job.settings.enable_progress_bar is not False


def announce_place(run: Run) -> None:
    """Say on which devices and in which precision a fit computes."""
    if not (speaks(run) and run.stage == "fit"):
        return
    strategy, device = run.strategy, run.strategy.device
    if strategy.world_size == 1:
        place = str(device) if device.type != "cpu" else "the CPU"
    else:
        nodes = run.job.settings.num_nodes or 1
        on_nodes = f" on {nodes} nodes" if nodes > 1 else ""
        place = f"{strategy.world_size} x {device.type}{on_nodes} by {strategy.name}"
    named = getattr(getattr(torch, device.type, None), "get_device_name", None)
    model = f" ({named(device)})" if named is not None else ""
    compiles = ", compiled: the first batches take longer" if run.compile_report is not None else ""
    run.trainer.print(f"Training on {place}{model}, precision {run.precision.name}{compiles}")


def announce_folders(run: Run) -> None:
    """Say where a fit writes; nothing where it writes nowhere."""
    if not (speaks(run) and run.stage == "fit"):
        return
    files = [logger.log_dir for logger in run.loggers] + [getattr(cb, "dirpath", None) for cb in run.callbacks]
    wanted = dict.fromkeys(str(path) for path in files if path)
    folders = [path for path in wanted if not any(_below(path, other) for other in wanted)]
    named = [f"{logger.name} {logger.version}" for logger in run.loggers if not logger.log_dir and logger.version]
    if (folders or named) and not run.job.settings.fast_dev_run:
        run.trainer.print(f"Writing to {', '.join([*map(short_path, folders), *named])}")


def warn_of_eval_mode(module: LightningModule) -> None:
    """Warn where training begins with the module in eval mode; one of its parts in it is often meant."""
    if not module.training:
        warn(
            f"{type(module).__name__} is in eval mode where training begins: dropout does nothing, and batch norm "
            "learns no statistics. Call train() before fit; parts that are meant to be in it, such as a frozen "
            "backbone, can be by themselves.",
            code="LT584",
        )


def _below(path: str, other: str) -> bool:
    return path != other and Path(path).absolute().is_relative_to(Path(other).absolute())


def announce_end(run: Run) -> None:
    """Say where a fit ended, and why. Epochs are numbered from 0, as in hooks and file names."""
    if not speaks(run):
        return
    position = run.position
    where = f"in epoch {position.epoch}" if position.batch else f"after epoch {position.epoch - 1}"
    where = where if position.epoch or position.batch else "before the first epoch"
    run.trainer.print(f"Training ended {where}, step {position.step}: {run.stopping.reason}.")
