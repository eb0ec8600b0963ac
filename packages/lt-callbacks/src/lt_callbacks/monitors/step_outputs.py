"""What ``training_step`` returned, as callbacks get it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

__all__ = ["loss_of"]


def loss_of(outputs: Any) -> Tensor | None:
    """Return the loss in what ``training_step`` returned, shape ``()``, or None."""
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
    return loss if isinstance(loss, Tensor) else None
