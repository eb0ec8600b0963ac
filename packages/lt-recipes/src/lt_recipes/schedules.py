"""Learning rates over a run, by name."""

from __future__ import annotations

from math import cos, inf, pi
from typing import Any, Literal, get_args

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from lt_core.errors import ConfigError

__all__ = ["schedule"]

Name = Literal["constant", "linear", "cosine", "warmup_stable_decay"]


def schedule(
    optimizer: Optimizer,
    name: Name,
    total: float,
    *,
    warmup: float = 0,
    decay: float = 0.2,
    lowest: float = 0,
) -> dict[str, Any]:
    """Return a warm-up and what comes after it, as the ``"lr_scheduler"`` of ``configure_optimizers``, by steps.

    The rate rises from 0. Then it stays (``"constant"``), or falls until the last step: in a line (``"linear"``), in
    half a wave (``"cosine"``), or in a line in the last ``decay`` steps alone (``"warmup_stable_decay"``: Hu et al.,
    "MiniCPM", https://arxiv.org/abs/2404.06395). Step by step the rates are those of transformers' schedules
    ``constant_with_warmup``, ``linear``, ``cosine``, and ``warmup_stable_decay`` with ``decay_type="linear"``; its
    default is ``"cosine"``.

    Args:
        optimizer: the ``lr`` of each of its groups is the highest.
        name: what comes after the warm-up.
        total: optimizer steps of the run: ``self.trainer.estimated_stepping_batches``.
        warmup: optimizer steps in which the rate rises; below 1, a share of all.
        decay: optimizer steps in which ``"warmup_stable_decay"`` falls; below 1, a share of all.
        lowest: the last rate, as a share of the highest.

    Raises:
        ConfigError: for another name, or a run without an end.

    Example::

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=3e-4)
            steps = self.trainer.estimated_stepping_batches
            return {"optimizer": optimizer, "lr_scheduler": schedule(optimizer, "cosine", steps, warmup=0.05)}
    """
    if name not in get_args(Name) or total == inf:
        raise ConfigError(
            f"schedule({name!r}, total={total}): expected one of {', '.join(map(repr, get_args(Name)))}, and the steps "
            "of a run with an end: Trainer(max_steps=) or Trainer(max_epochs=).",
            code="LT805",
        )
    rise, fall = (number * total if number < 1 else number for number in (warmup, decay))
    length = fall if name == "warmup_stable_decay" else total - rise

    def factor(step: int) -> float:
        if step < rise:
            return step / rise
        left = 1.0 if name == "constant" else min(1.0, max(0.0, total - step) / max(1.0, length))
        return lowest + (1 - lowest) * ((1 - cos(pi * left)) / 2 if name == "cosine" else left)

    return {"scheduler": LambdaLR(optimizer, factor), "interval": "step"}
