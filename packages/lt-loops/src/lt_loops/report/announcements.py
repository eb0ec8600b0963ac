"""Lines that a fit prints when it begins and ends; ``Trainer(enable_progress_bar=False)`` keeps it quiet."""

from pathlib import Path

import torch

from lt_core.callback import Callback
from lt_core.errors import warn
from lt_core.logger import Logger
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.strategy import Strategy
from lt_core.terminal import short_path
from lt_loops.state.position import Position


def place(strategy: Strategy, precision: Precision, num_nodes: int, *, compiles: bool) -> str:
    """Return on which devices and in which precision a fit computes."""
    device = strategy.device
    if strategy.world_size == 1:
        where = str(device) if device.type != "cpu" else "the CPU"
    else:
        on_nodes = f" on {num_nodes} nodes" if num_nodes > 1 else ""
        where = f"{strategy.world_size} x {device.type}{on_nodes} by {strategy.name}"
    named = getattr(getattr(torch, device.type, None), "get_device_name", None)
    model = f" ({named(device)})" if named is not None else ""
    slow = ", compiled: the first batches take longer" if compiles else ""
    return f"Training on {where}{model}, precision {precision.name}{slow}"


def folders(loggers: list[Logger], callbacks: list[Callback]) -> str:
    """Return where a fit writes; empty where it writes nowhere."""
    files = [logger.log_dir for logger in loggers] + [getattr(cb, "dirpath", None) for cb in callbacks]
    wanted = dict.fromkeys(str(path) for path in files if path)
    places = {Path(path).absolute(): path for path in wanted}
    found = [path for place, path in places.items() if not places.keys() & {*place.parents}]
    named = [
        f"{logger.name} {logger.version}"
        for logger in loggers
        if not logger.log_dir and logger.version not in (None, "")
    ]
    return f"Writing to {', '.join([*map(short_path, found), *named])}" if found or named else ""


def warn_of_eval_mode(module: LightningModule) -> None:
    """Warn where training begins with the module in eval mode; one of its parts in it is often meant."""
    if not module.training:
        warn(
            f"{type(module).__name__} is in eval mode where training begins: dropout does nothing, and batch norm "
            "learns no statistics. Call train() before fit; parts that are meant to be in it, such as a frozen "
            "backbone, can be by themselves.",
            code="LT584",
        )


def end(position: Position, reason: str) -> str:
    """Return where a fit ended, and why. Epochs are numbered from 0, as in hooks and file names."""
    where = f"in epoch {position.epoch}" if position.batch else f"after epoch {position.epoch - 1}"
    where = where if position.epoch or position.batch else "before the first epoch"
    return f"Training ended {where}, step {position.global_step}: {reason}."
