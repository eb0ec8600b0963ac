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
def log_outside_the_graph(module: LightningModule, name: str, value: Any, **settings: Any) -> None:
    """Log from a compiled step, with the arguments of ``self.log``: the graph breaks here, and goes on after it."""
    module.log(name, value, **settings)
