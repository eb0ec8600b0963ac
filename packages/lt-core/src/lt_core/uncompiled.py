"""Logging from a compiled step. A module of its own: ``torch.compiler.disable`` imports the compiler, which takes
seconds, and only those who compile should wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from lt_core.module import LightningModule

__all__ = ["log_outside_the_graph"]


@torch.compiler.disable  # type: ignore[untyped-decorator]
def log_outside_the_graph(
    module: LightningModule,
    name: str,
    value: Any,
    batch_size: int | None,
    prog_bar: bool,
    logger: bool | None,
    on_step: bool | None,
    on_epoch: bool | None,
    reduce_fx: Any,
) -> None:
    """Log from a compiled step: the graph breaks here, and goes on after it."""
    module.log(name, value, prog_bar, logger, on_step, on_epoch, reduce_fx, batch_size=batch_size)
