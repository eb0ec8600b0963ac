"""A fit that goes on from another replica's state where that is further."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from lt_core.errors import ConfigError
from lt_torchft.strategy import BehindError, FaultTolerant

__all__ = ["fit"]


def fit(trainer: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    """Call ``trainer.fit``, and again from another replica's state whenever this one is behind.

    So a process that comes later, or was started again, and one that missed a step go on where the others are, to the
    bit. Arguments and result are ``trainer.fit``'s.

    Raises:
        ConfigError: when the Trainer's strategy is another one, or it accumulates gradients.
    """
    strategy = trainer.strategy
    if not isinstance(strategy, FaultTolerant):
        raise ConfigError(
            f"lt_torchft.fit got a Trainer with strategy={strategy.name!r}; expected strategy='torchft' or an instance "
            "of lt_torchft.FaultTolerant.",
            code="TORCHFT7",
        )
    if trainer.window_of(0) != 1:
        raise ConfigError(
            f"strategy='torchft' takes a step for each batch; accumulate_grad_batches={trainer.window_of(0)} would "
            "need several. Take accumulate_grad_batches=1 and larger batches, or more replicas.",
            code="TORCHFT8",
        )
    with tempfile.TemporaryDirectory(prefix="lt-torchft-") as name:
        folder = Path(name)

        def save() -> Path:
            path: Path = strategy.broadcast(folder) / "sent.ckpt"  # where rank 0 says
            trainer.save_checkpoint(path)
            return path

        strategy.save = save
        try:
            while True:
                try:
                    return trainer.fit(model, *args, **kwargs)
                except BehindError as error:
                    path = strategy.take_received(folder)
                    kwargs["ckpt_path"], strategy.foreign = str(path), None if error.own else path
        finally:
            strategy.save = None
